// Package messages tests the consumers of package inbox against real brokers,
// and a real consumer process that is killed and stopped. It is a module of its
// own because of all the clients and servers that it needs.
package messages
