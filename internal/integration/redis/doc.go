// Package redis tests the Redis stores against real servers, through both client
// libraries. It is a module of its own, so that what it requires stays out of
// the others, and it is never released.
package redis
