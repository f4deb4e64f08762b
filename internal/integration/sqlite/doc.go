// Package sqlite tests package sqlstore with a real driver: against the contract of
// storetest, with faults between the store and SQLite, with several
// processes on one file, and with processes that are killed.
package sqlite
