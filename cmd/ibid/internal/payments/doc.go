// Package payments is a payments API as the field knows it, made to be tested:
// its ledger counts every charge that really happened, and request headers
// switch faults on.
//
//	POST /payments              {"order_id":"o-1","amount":3000,"currency":"TWD"}
//	GET  /payments/{id}
//	POST /refunds               {"payment_id":"pay_…","amount":1000}
//	GET  /refunds/{id}
//	GET  /ledger?order_id=o-1   every charge of the order, of all callers
//
// The caller is named by X-User-ID. The package does nothing about duplicates
// but what a careful schema does: Routes takes the middleware that does.
package payments
