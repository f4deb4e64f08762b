package inbox

import (
	"fmt"
	"time"
)

// Message is what a broker delivered, as far as its identity goes.
type Message struct {
	// Source is who made the ID unique: the topic, the queue, the provider, the
	// source of a CloudEvent. Required.
	Source string
	// ID is the producer's own name for the message: the same in every delivery,
	// and in what the producer sends again. An offset or a delivery tag is not
	// one: a message that is published twice has two. Required.
	ID string
	// Body is what is fingerprinted: the same ID with another body is refused.
	Body []byte
}

// Produced is a message that the work wants sent. It is recorded as part of the
// result, and emitted again when the message that caused it is delivered again:
// whoever receives it deduplicates by its ID.
type Produced struct {
	// ID identifies it. Produce fills in a derived key when it is empty.
	ID string `json:"id"`
	// Topic is where it goes, in the words of whoever emits it.
	Topic  string            `json:"topic,omitempty"`
	Header map[string]string `json:"header,omitempty"`
	Body   []byte            `json:"body,omitempty"`
}

// Verdict is what to tell the broker.
type Verdict uint8

const (
	// Leave says nothing: the claim was lost to another attempt, whose answer
	// counts. Where a broker waits for an answer for ever, ask it to deliver
	// again; never acknowledge.
	Leave Verdict = iota
	// Ack means that the message is done, by this delivery or an earlier one.
	Ack
	// Retry asks for the message again, after Decision.Delay.
	Retry
	// Reject means that no delivery will ever do: to the dead letters.
	Reject
)

// String returns the verdict in words.
func (v Verdict) String() string {
	switch v {
	case Leave:
		return "leave"
	case Ack:
		return "ack"
	case Retry:
		return "retry"
	case Reject:
		return "reject"
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// Decision is what became of a delivery.
type Decision struct {
	Verdict Verdict
	// Delay is how long to wait before the next delivery, with Retry; 0 is at
	// once.
	Delay time.Duration
	// Err says why, unless the verdict is Ack: an error of package ibid, or that
	// of the work.
	Err error
	// Replayed is set when an earlier delivery did the work.
	Replayed bool
	// Attempt is the number of the attempt that decided; 0 if it is not known.
	Attempt int
	// Produced are the messages that the work produced, in order, with Ack.
	// Options.Emit has sent them.
	Produced []Produced
}
