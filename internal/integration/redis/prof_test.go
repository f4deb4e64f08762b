package redis_test

import (
	"strings"
	"syscall"
	"testing"
	"time"
	"os"
	"strconv"

	"github.com/ibid-go/ibid/internal/integration/redis/redistest"
)

func TestProf(t *testing.T) {
	if os.Getenv("PROF") == "" { t.Skip() }
	server := redistest.Start(t)
	b := &testing.B{}
	_ = b
	testing.Benchmark(func(b *testing.B) {
		for _, sd := range sides(b, server) {
			if sd.name != "rueidis" && os.Getenv("PROF") != "all" { continue }
			cpu := func() (c, s time.Duration) {
				var ru syscall.Rusage
				syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
				f := func(n string) time.Duration { x, _ := strconv.ParseFloat(server.Info("cpu", n), 64); return time.Duration(x*1e9) }
				return time.Duration(ru.Utime.Nano()+ru.Stime.Nano()), f("used_cpu_user")+f("used_cpu_sys")
			}
			run := func(name string, op func(int)) {
				server.Do("CONFIG", "RESETSTAT")
				c0, s0 := cpu()
				n := 0.0
				for range 6 { n += rate(64, op)*benchTurn.Seconds() }
				c1, s1 := cpu()
				t.Logf("%s %s: client %.2f µs, server %.2f µs per op, sum %.2f", sd.name, name, float64(c1-c0)/1e3/n, float64(s1-s0)/1e3/n, float64(c1-c0+s1-s0)/1e3/n)
				for line := range strings.Lines(server.Do("INFO", "commandstats")) {
					if strings.Contains(line, "evalsha") || strings.Contains(line, "_set") { t.Log(strings.TrimSpace(line)) }
				}
			}
			run("2set", func(int) { name := rawKey("plain:", newKey()); sd.set(name, benchFirst); sd.set(name, benchSecond) })
			run("first", firstRun(b, sd.store))
		}
	})
}
