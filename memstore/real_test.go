package memstore_test

import (
	"testing"
	"time"

	"github.com/ibid-go/ibid/storetest"
)

// The suite must also judge stores whose clock cannot be faked: what a bubble
// skips over is slept through here.
func TestContractOnARealClock(t *testing.T) {
	if testing.Short() {
		t.Skip("sleeps")
	}
	t.Parallel()
	real := target()
	real.FakeClock, real.Tick, real.Resolution = false, 50*time.Millisecond, time.Microsecond
	storetest.Run(t, real)
}
