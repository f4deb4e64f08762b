package tour_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibid-go/ibid/cmd/ibid/internal/tour"
)

// play shows one scene that takes 3 seconds.
func play(p tour.Printer) {
	n := 2
	p.Scene(1, 2, tour.Scene{Name: "s", Title: "A title"})
	for i := range 30 {
		time.Sleep(100 * time.Millisecond)
		p.Progress(100*i, 3000)
	}
	p.Step(tour.Step{Sent: "this", Got: "that"})
	p.Step(tour.Step{Sent: "GET /ledger", Got: "2 charges", Charges: &n})
	p.Done(tour.Result{Scene: "s", Title: "A title", Proves: "a promise", Verdict: tour.Broken, Reason: "charges", Expected: "1", Seen: "2", Seconds: 3})
	p.Total(tour.Report{Scenes: 2, Broken: "s", Requests: 3000, Charges: 2, Seconds: 3})
}

func TestTextIsPlainWithoutATerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		play(tour.Text(&out, nil))
		want := `
 1/2  A title
       …       1,900 of 3,000 answered
       sent    this
       got     that
       ledger  2 charges
       BROKEN  a promise
               charges
               expected 1
               saw      2

0 of 2 promises kept, stopped at s: 3,000 requests, 2 charges, 3.0 s
`
		if out.String() != want {
			t.Errorf("got:\n%s\nwant:\n%s", &out, want)
		}
	})
}

func TestTextShowsProgressInOneLineOfATerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		play(tour.Text(&out, &tour.TextOptions{Terminal: true, Colour: true}))
		lines := strings.Split(out.String(), "\n")
		shown := strings.Split(lines[2], "\r")
		if len(shown) != 32 || !strings.HasSuffix(shown[30], "2,900 of 3,000 answered") {
			t.Errorf("progress: %q", shown)
		}
		if last := shown[31]; last != "\x1b[K       sent    this" {
			t.Errorf("the line after progress is %q", last)
		}
		if !strings.Contains(out.String(), "\x1b[31mBROKEN\x1b[0m") {
			t.Errorf("a broken promise is not red: %q", &out)
		}
	})
}

func TestJSONIsOneObjectPerScene(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		play(tour.JSON(&out))
		want := `{"scene":"s","title":"A title","proves":"a promise","verdict":"broken","expected":"1","seen":"2","reason":"charges","seconds":3,"steps":null}
{"total":{"scenes":2,"kept":0,"skipped":0,"broken":"s","requests":3000,"charges":2,"seconds":3}}
`
		if out.String() != want {
			t.Errorf("got:\n%s\nwant:\n%s", &out, want)
		}
	})
}
