package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/ibidhttp"
)

// keyView is what an operator sees of a key.
type keyView struct {
	Digest     string `json:"key"`
	State      string `json:"state"`
	Label      string `json:"label,omitempty"`
	Attempt    int    `json:"attempt,omitempty"`
	Vanished   int    `json:"vanished,omitempty"`
	Generation int    `json:"generation,omitempty"`
	Fence      int64  `json:"fence,omitempty"`
	// LeaseSeconds is what is left of the lease, WindowSeconds of the record.
	LeaseSeconds  float64 `json:"lease_seconds,omitempty"`
	WindowSeconds float64 `json:"window_seconds,omitempty"`
	Failure       string  `json:"failure,omitempty"`
	NotKept       bool    `json:"not_kept,omitempty"`
	Size          int     `json:"size,omitempty"`   // of the result, in bytes
	Status        int     `json:"status,omitempty"` // of the answer, where the result is one
	// Header and Body are those of the answer; Value is the result where it is
	// no answer.
	Header map[string][]string `json:"header,omitempty"`
	Body   string              `json:"body,omitempty"`
	Value  string              `json:"value,omitempty"`
}

// view returns what an operator sees of op, with its result if he asks for it.
func view(op ibid.Operation, result bool) keyView {
	rec := op.Record
	v := keyView{
		Digest: op.Key.String(), State: rec.State.String(), Label: op.Label, Attempt: rec.Attempt, Vanished: rec.Vanished,
		Generation: rec.Generation, Fence: rec.Fence, LeaseSeconds: rec.Lease.Seconds(), WindowSeconds: rec.Window.Seconds(),
		Failure: op.Failure, NotKept: op.NotKept, Size: len(op.Value),
	}
	answer, err := ibidhttp.DecodeAnswer(op.Value)
	switch {
	case err == nil:
		v.Status, v.NotKept, v.Size = answer.Status, v.NotKept || answer.NotKept, len(answer.Body)
		if result {
			v.Header, v.Body = answer.Header, printable(answer.Body)
		}
	case result:
		v.Value = printable(op.Value)
	}
	return v
}

// printable returns b as text, or quoted where it is none.
func printable(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return fmt.Sprintf("%q", b)
}

func (v keyView) writeJSON(w io.Writer) error { return json.NewEncoder(w).Encode(v) }

func (v keyView) writeText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("key", "%s", v.Digest)
	row("state", "%s", v.State)
	if v.Label != "" {
		row("label", "%q", v.Label)
	}
	if v.Attempt > 0 {
		row("attempt", "%d, of which %d vanished and were taken over", v.Attempt, v.Vanished)
	}
	if v.Generation > 0 {
		row("generation", "%d: it was forgotten that often", v.Generation)
	}
	if v.LeaseSeconds > 0 {
		row("lease", "holds for %s", seconds(v.LeaseSeconds))
	}
	if v.WindowSeconds > 0 {
		row("kept", "for %s", seconds(v.WindowSeconds))
	}
	switch {
	case v.Failure != "":
		row("failure", "%q", v.Failure)
	case v.Status != 0 && v.NotKept:
		row("answer", "%d, and what else was answered was not kept", v.Status)
	case v.Status != 0:
		row("answer", "%d, %d bytes", v.Status, v.Size)
	case v.NotKept:
		row("result", "was not kept")
	case v.State == ibid.Completed.String():
		row("result", "%d bytes", v.Size)
	}
	switch {
	case v.State == ibid.Lapsed.String():
		row("outcome", "unknown: find out what happened, then ibid keys resolve")
	case v.State == ibid.Released.String() && v.Vanished > 0:
		row("outcome", "unknown where the policy is to refuse: an earlier attempt vanished")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for name, values := range v.Header {
		for _, value := range values {
			fmt.Fprintf(w, "\n%s: %s", name, value)
		}
	}
	if text := v.Body + v.Value; text != "" || len(v.Header) > 0 {
		fmt.Fprintf(w, "\n\n%s\n", text)
	}
	return nil
}

func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d > 10*time.Minute:
		return d.Round(time.Minute).String()
	case d > 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

func writeList(w io.Writer, ops []ibid.Operation, asJSON bool) error {
	if asJSON {
		for _, op := range ops {
			if err := view(op, false).writeJSON(w); err != nil {
				return err
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join([]string{"KEY", "STATE", "ATTEMPT", "VANISHED", "LEASE", "KEPT FOR", "LABEL"}, "\t"))
	for _, op := range ops {
		v := view(op, false)
		lease := "-"
		if v.LeaseSeconds > 0 {
			lease = seconds(v.LeaseSeconds)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\n", v.Digest, v.State, v.Attempt, v.Vanished, lease, seconds(v.WindowSeconds), v.Label)
	}
	return t.Flush()
}
