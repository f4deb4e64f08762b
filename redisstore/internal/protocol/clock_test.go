package protocol

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestClockRunsAheadOfTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		server := func() int64 { return time.Now().Add(time.Hour).UnixNano() }
		answer := func(there, back time.Duration) {
			asked := c.since()
			time.Sleep(there)
			micros := server() / int64(time.Microsecond)
			time.Sleep(back)
			c.learn(asked, micros)
		}
		ahead := func() time.Duration {
			now, err := c.now(t.Context(), nil) // nobody is asked
			if err != nil {
				t.Fatal(err)
			}
			return time.Duration(now - server())
		}
		answer(time.Millisecond, time.Millisecond)
		if d := ahead(); d < 0 || d > 2*time.Millisecond {
			t.Errorf("%v ahead after an answer of 2 ms", d)
		}
		answer(5*time.Millisecond, 0)
		first := ahead()
		answer(0, 0)
		if d := ahead(); d != first {
			t.Errorf("went from %v ahead to %v: two fences would be closer than their claims", first, d)
		}
		answer(time.Second, 0)
		if d := ahead(); d != first {
			t.Errorf("a slow answer made it %v ahead", d)
		}
		time.Sleep(clockFresh)
		answer(time.Millisecond, 0)
		if d := ahead(); d < 0 || d > 2*time.Millisecond {
			t.Errorf("%v ahead after a fresh answer", d)
		}
	})
}
