// Package orders is an orders API whose every order is an operation of four
// steps, made to be killed between any two of them:
//
//	reserve   takes the items from the stock     in the transaction of the step
//	charge    has the provider charge the card   elsewhere, under the derived key
//	order     writes the order                   in the transaction of the step
//	receipt   queues the receipt                 in the transaction of the step
//
//	POST /orders               {"item":"cup","quantity":1,"amount":3000,"currency":"TWD"}
//	POST /wallet/payments      {"order_id":"o-1","amount":300}, in transactional mode
//	GET  /books?item=cup       what stock, orders, receipts and wallets hold
//
// Orders, stock, wallets and the records of ibid are one SQLite file: that is
// what lets a step, or a wallet payment, be committed together with its record.
package orders
