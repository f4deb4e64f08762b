// Package provider is a payment provider: a process of its own, whose charges
// others can only ask for over HTTP, and which honours Idempotency-Key.
//
//	POST /charges              {"order_id":"o-1","amount":3000,"currency":"TWD"}
//	GET  /charges?order_id=o-1 every charge of the order
//
// A header makes it slow, makes it lose its answer or has it decline the card.
package provider
