// Package clientfaults holds the client's half against the real payments
// service of cmd/ibid, with a proxy in between that loses, cuts, delays,
// duplicates and swallows what goes through it, and with client processes that are killed.
package clientfaults
