package tour

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Printer shows a tour as it goes.
type Printer interface {
	Scene(n, of int, s Scene)
	Step(s Step)
	// Progress is called often, in scenes that take long.
	Progress(done, of int)
	Done(r Result)
	Total(r Report)
}

// TextOptions of Text. Nil is the default.
type TextOptions struct {
	// Terminal writes progress over itself, and colours. Default false: every
	// line stays.
	Terminal bool
	// Colour marks verdicts. Default false.
	Colour bool
	// Width is where long lines are cut, in characters. Default 0: nowhere.
	Width int
}

// Text shows a tour to people.
func Text(w io.Writer, opts *TextOptions) Printer {
	p := &text{w: w}
	if opts != nil {
		p.opts = *opts
	}
	return p
}

type text struct {
	w        io.Writer
	opts     TextOptions
	progress time.Time // when it was shown last
	pending  bool      // a line of progress stands where the cursor is
}

// progressEvery is how often progress is shown, where it writes over itself and
// where every line stays.
const (
	progressEvery     = 100 * time.Millisecond
	progressLineEvery = 2 * time.Second
)

func (p *text) line(format string, args ...any) {
	if p.pending {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.pending = false
	}
	s := fmt.Sprintf(format, args...)
	if r := []rune(s); p.opts.Width > 3 && len(r) > p.opts.Width {
		s = string(r[:p.opts.Width-1]) + "…"
	}
	fmt.Fprintln(p.w, s)
}

func (p *text) colour(code, s string) string {
	if !p.opts.Colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p *text) Scene(n, of int, s Scene) {
	p.line("")
	p.line("%s", p.colour("1", fmt.Sprintf("%2d/%d  %s", n, of, s.Title)))
	p.progress = time.Now()
}

func (p *text) Step(s Step) {
	if s.Charges != nil {
		p.line("       ledger  %s", s.Got)
		return
	}
	p.line("       sent    %s", s.Sent)
	for line := range strings.SplitSeq(s.Got, "\n") {
		p.line("       got     %s", line)
	}
}

func (p *text) Progress(done, of int) {
	every := progressLineEvery
	if p.opts.Terminal {
		every = progressEvery
	}
	if time.Since(p.progress) < every {
		return
	}
	p.progress = time.Now()
	line := fmt.Sprintf("       …       %s of %s answered", number(done), number(of))
	if p.opts.Terminal {
		fmt.Fprint(p.w, "\r"+line)
		p.pending = true
		return
	}
	p.line("%s", line)
}

func (p *text) Done(r Result) {
	switch r.Verdict {
	case Kept:
		p.line("       %s    %s (%.1f s)", p.colour("32", "kept"), r.Proves, r.Seconds)
	case Skipped:
		p.line("       %s %s", p.colour("33", "skipped"), r.Reason)
	case Broken:
		p.line("       %s  %s", p.colour("31", "BROKEN"), r.Proves)
		p.line("               %s", r.Reason)
		p.line("               expected %s", r.Expected)
		p.line("               saw      %s", r.Seen)
	case Interrupted:
		p.line("       %s %s", p.colour("33", "stopped"), r.Reason)
	}
}

func (p *text) Total(r Report) {
	p.line("")
	what := fmt.Sprintf("%d of %s kept", r.Kept, plural(r.Scenes, "promise"))
	if r.Skipped > 0 {
		what += fmt.Sprintf(", %d skipped", r.Skipped)
	}
	if r.Broken != "" {
		what = p.colour("31", what+", stopped at "+r.Broken)
	} else {
		what = p.colour("32", what)
	}
	p.line("%s: %s, %s, %.1f s", what, plural(int(r.Requests), "request"), plural(r.Charges, "charge"), r.Seconds)
}

// JSON shows a tour to programs: one object per scene that ended, and a last
// one, {"total": …}. Each is a line.
func JSON(w io.Writer) Printer { return jsonPrinter{json.NewEncoder(w)} }

type jsonPrinter struct{ enc *json.Encoder }

func (jsonPrinter) Scene(int, int, Scene) {}
func (jsonPrinter) Step(Step)             {}
func (jsonPrinter) Progress(int, int)     {}
func (p jsonPrinter) Done(r Result)       { _ = p.enc.Encode(r) } // who stopped reading misses nothing
func (p jsonPrinter) Total(r Report) {
	_ = p.enc.Encode(struct {
		Total Report `json:"total"`
	}{r})
}

// plural returns "1 charge" or "1,000 charges".
func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return number(n) + " " + word + "s"
}

// number writes n with a comma between thousands.
func number(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
