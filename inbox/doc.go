// Package inbox processes messages once, from brokers that deliver them twice.
// Every broker redelivers: after a crash, a lost acknowledgement, a slow handler
// or a moved partition. A consumer of this package keeps one record per message,
// under the same engine and in the same key space as HTTP, and tells the caller
// what to answer the broker.
//
//	consumer, err := inbox.New(engine, "billing", ibid.Retry, &inbox.Options{
//		AckTimeout: 30 * time.Second,
//	})
//	if err != nil {
//		return err
//	}
//	decision := consumer.Process(ctx,
//		inbox.Message{Source: "orders", ID: msg.ID, Body: msg.Body},
//		msg.InProgress,
//		func(ctx context.Context) error {
//			return bank.Charge(ctx, ibid.DerivedKey(ctx, "charge"), order)
//		})
//	switch decision.Verdict { … } // ack, ask again, reject, or say nothing
//
// The adapters in the folders below this one do that switch for a broker.
//
// # Guarantees
//
//   - A message is acknowledged only after its result was recorded, never while
//     another delivery is being processed, and never after the claim was lost.
//   - A message that was done is acknowledged again without running, and what it
//     produced is emitted again, under the same IDs.
//   - The same ID with another body is rejected, and never runs.
//   - The identity of a message is the consumer's name, the source and the ID.
//
// What they make of the effect is chosen by the takeover policy: see
// [ibid.Takeover]. With [Options].Tx the effect is part of the record's own
// transaction, and happens exactly once per window. [Inbox] does the same for
// a caller that has a transaction already.
//
// # What it does not do
//
// It neither connects to a broker nor polls one, orders nothing, and cannot make
// a window longer than it is: a message that comes after Policy.Retain is a new
// one. Options.Horizon has New check that.
//
// # Brokers
//
// Leave the broker's own cap on deliveries off, or large: a delivery that finds
// another in progress counts for the broker, and is no failed attempt. The cap
// that counts attempts is Policy.MaxAttempts.
package inbox
