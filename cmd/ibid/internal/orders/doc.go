// Package orders is an orders API whose every order is an operation of four
// steps, made to be killed between any two of them:
//
//	reserve   takes the items from the stock     in the transaction of the step
//	charge    has the provider charge the card   elsewhere, under the derived key
//	order     writes the order                   in the transaction of the step
//	receipt   queues the receipt                 in the transaction of the step
//
//	POST /orders               {"order_id":"o-1","item":"cup","quantity":1,"amount":3000,"currency":"TWD"}
//	POST /wallet/payments      {"order_id":"o-1","amount":300}, in transactional mode
//	PUT  /stock/{item}         how many there are
//	PUT  /wallets/{user}       the balance
//	GET  /books?order_id=o-1&item=cup&user=alice
//	                           how often everything happened, and what is left
//	GET  /held                 the points at which requests stop, see StopHeader
//
// Stock, orders, wallets and the records of ibid are one SQLite file: that is
// what lets a step, or a wallet payment, be committed together with its record.
// Keys keep one request from happening twice; what several requests must not do
// together, the tables refuse: docs/guards.md says how.
package orders
