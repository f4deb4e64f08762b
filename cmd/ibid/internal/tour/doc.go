// Package tour puts the promises of package ibid to the test against real
// processes of the payments service: it starts them, sends them what clients,
// networks and operators send, kills them, and counts what the ledger holds.
//
// A tour is a list of scenes. Each says what it proves, and is either kept,
// broken, with what was expected and what was seen, or skipped, because the
// store does not promise to survive what the scene does to it. A tour stops at the first scene
// that is broken.
package tour
