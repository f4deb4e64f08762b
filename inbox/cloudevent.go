package inbox

import (
	"encoding/json"
	"mime"
)

// CloudEvent returns the message that a CloudEvents 1.0 producer sent, whose
// identity is its attributes source and id; false if it is none.
//
// In binary mode the attributes are headers, spelled differently by each
// protocol binding: ce-id (HTTP, NATS), ce_id (Kafka), cloudEvents:id or
// cloudEvents_id (AMQP). In structured mode the content type is
// application/cloudevents+json and they are members of the body. header returns
// the header of that name, or "".
func CloudEvent(header func(name string) string, body []byte) (Message, bool) {
	for _, prefix := range [...]string{"ce-", "ce_", "cloudEvents:", "cloudEvents_"} {
		m := Message{Source: header(prefix + "source"), ID: header(prefix + "id"), Body: body}
		if m.Source != "" && m.ID != "" {
			return m, true
		}
	}
	for _, name := range [...]string{"content-type", "Content-Type"} {
		if kind, _, err := mime.ParseMediaType(header(name)); err != nil || kind != "application/cloudevents+json" {
			continue
		}
		var event struct {
			ID     string `json:"id"`
			Source string `json:"source"`
		}
		if json.Unmarshal(body, &event) == nil && event.ID != "" && event.Source != "" {
			return Message{Source: event.Source, ID: event.ID, Body: body}, true
		}
	}
	return Message{}, false
}
