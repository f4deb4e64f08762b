package inbox

import (
	"context"
	"errors"

	"github.com/ibid-go/ibid"
)

// MarkStatus is what Inbox.Mark found.
type MarkStatus uint8

const (
	// Busy means that another attempt holds the message, or that the transaction
	// lost against another: roll back, and ask for the message again.
	Busy MarkStatus = iota
	// First means that the message is marked: do the work, and commit.
	First
	// Duplicate means that the message was done before: write nothing, and
	// acknowledge.
	Duplicate
	// Conflict means that the ID was used with another body: reject.
	Conflict
	// Unknown means that an attempt in lease mode vanished, or that the record
	// cannot be understood: reject.
	Unknown
)

// String returns the status in words.
func (s MarkStatus) String() string {
	return [...]string{"busy", "first", "duplicate", "conflict", "unknown"}[min(s, Unknown)]
}

// Inbox is the transactional inbox for those who have a transaction already:
// the mark and the effect are committed together. A consumer whose transaction
// should be opened for it uses Options.Tx instead. Both see the same records.
type Inbox[TX any] struct {
	consumer *Consumer
	store    ibid.Marker[TX]
}

// Of returns the transactional inbox of consumer, in store, which is the one
// that the consumer's engine has.
func Of[TX any](consumer *Consumer, store ibid.Marker[TX]) *Inbox[TX] {
	return &Inbox[TX]{consumer: consumer, store: store}
}

// Mark marks m as done in tx. Call it before the work: then two deliveries wait
// for each other before they have written anything.
//
//	status, err := box.Mark(ctx, tx, m)
//	switch {
//	case err != nil:              // roll back; ask again
//	case status == inbox.First:   // the effect, in tx; commit; ack
//	case status == inbox.Duplicate: // roll back; ack
//	default:                      // roll back; see MarkStatus
//	}
//
// The error is nil for First and Duplicate, and otherwise says why.
func (b *Inbox[TX]) Mark(ctx context.Context, tx TX, m Message) (MarkStatus, error) {
	marked, err := b.MarkBatch(ctx, tx, []Message{m})
	if err != nil {
		return Busy, err
	}
	return marked[0].Status, marked[0].Err
}

// Marked is what became of one message of a batch.
type Marked struct {
	Status MarkStatus
	Err    error     // nil for First and Duplicate
	mark   ibid.Mark // what Committed looks up
}

// MarkBatch is Mark for messages that share tx, in as few round trips as the
// store can. The work of those that are First is done before the commit; the others stay
// out of it. A message that is twice in the batch is First once. After an
// error nothing is marked, and tx must be rolled back.
func (b *Inbox[TX]) MarkBatch(ctx context.Context, tx TX, messages []Message) ([]Marked, error) {
	out := make([]Marked, len(messages))
	var marks []ibid.Mark
	var at []int
	for i, m := range messages {
		call, err := b.consumer.call(m)
		if err == nil {
			call.Tx = nil
			out[i].mark, err = b.consumer.engine.Mark(call, nil)
		}
		switch {
		case errors.Is(err, ibid.ErrInvalid):
			out[i] = Marked{Status: Conflict, Err: err}
			continue
		case err != nil:
			return nil, err
		}
		marks, at = append(marks, out[i].mark), append(at, i)
	}
	records, err := b.store.MarkTx(ctx, tx, marks)
	if err != nil {
		return nil, err
	}
	for j, i := range at {
		out[i].Status, out[i].Err = status(b.consumer.engine.Marked(marks[j], records[j]))
	}
	return out, nil
}

// Committed says what became of a transaction whose COMMIT was not answered:
// true when the message is marked by it. marked is what MarkBatch returned.
func (b *Inbox[TX]) Committed(ctx context.Context, marked Marked) (bool, error) {
	return b.consumer.engine.Committed(ctx, marked.mark)
}

func status(err error) (MarkStatus, error) {
	var final *ibid.FinalError
	switch {
	case err == nil:
		return First, nil
	case errors.Is(err, ibid.ErrDuplicate), errors.Is(err, ibid.ErrExpired):
		return Duplicate, nil
	case errors.Is(err, ibid.ErrInProgress):
		return Busy, err
	case errors.Is(err, ibid.ErrMismatch), errors.As(err, &final):
		return Conflict, err
	}
	return Unknown, err
}
