package pgsql

// MaxResult is the largest result that a statement carries safely: the server
// bounds a value to 1 GiB, and one in text form to half of that.
const MaxResult = 256 << 20
