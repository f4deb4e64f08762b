package redis_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/internal/integration/redis/redistest"
)

// startCluster starts three primaries that share the slots.
func startCluster(t *testing.T) []*redistest.Server {
	t.Helper()
	nodes := make([]*redistest.Server, 3)
	for i := range nodes {
		nodes[i] = redistest.Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
	}
	for i, n := range nodes {
		n.Do("CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(i*16384/3), fmt.Sprint((i+1)*16384/3-1))
		host, port, _ := net.SplitHostPort(nodes[0].Addr)
		n.Do("CLUSTER", "MEET", host, port)
	}
	for _, n := range nodes {
		eventually(t, "cluster", func() bool {
			info := n.Do("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3") && strings.Contains(info, "cluster_slots_ok:16384")
		})
	}
	return nodes
}

func addrs(nodes []*redistest.Server) (list []string) {
	for _, n := range nodes {
		list = append(list, n.Addr)
	}
	return list
}

// moveSlot moves one slot with its keys, as an operator does: there is a time
// when it is on the way, and keys of it are on both sides.
func moveSlot(from, to *redistest.Server, slot string, all []*redistest.Server) {
	fromID, toID := from.Do("CLUSTER", "MYID"), to.Do("CLUSTER", "MYID")
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	time.Sleep(50 * time.Millisecond) // callers meet ASK
	host, port, _ := net.SplitHostPort(to.Addr)
	for { // keys are binary: one at a time
		key := from.Do("CLUSTER", "GETKEYSINSLOT", slot, "1")
		if key == "" {
			break
		}
		from.Do("MIGRATE", host, port, key, "0", "5000")
	}
	for _, n := range append([]*redistest.Server{to, from}, all...) {
		n.Do("CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			nodes := startCluster(t)
			s := lib.open(t, "", addrs(nodes)...)
			for _, n := range nodes {
				n.Do("SCRIPT", "FLUSH")
			}
			const records = 100
			for i := range records {
				k, c := newKey(), newClaim()
				if i == 0 {
					k[0] = '}' // an empty hash tag is no hash tag
				}
				mustOwn(t, s, k, c)
				if r := begin(t, s, k, newTaker()); r.State != ibid.InProgress {
					t.Fatalf("a conflict: %+v", r)
				}
				complete(t, s, k, c, "done")
				if r := begin(t, s, k, newClaim()); string(r.Result) != "done" {
					t.Fatalf("a replay: %+v", r)
				}
			}
			for i, n := range nodes {
				if keys := n.Do("DBSIZE"); keys == "0" {
					t.Errorf("node %d has no key: the records are not spread", i)
				}
			}
			var after ibid.Digest
			listed := 0
			for {
				page, err := s.List(t.Context(), ibid.Filter{}, after, 30)
				if err != nil {
					t.Fatal(err)
				}
				if len(page) == 0 {
					break
				}
				listed += len(page)
				after = page[len(page)-1].Key
			}
			if listed != records {
				t.Errorf("%d records are listed over all nodes, want %d", listed, records)
			}
			changed, stop, err := s.Watch(t.Context(), after)
			if err != nil {
				t.Fatal(err)
			}
			stop()
			<-changed // completed: nothing to wait for
			k, c := newKey(), newClaim()
			mustOwn(t, s, k, c)
			if changed, stop, err = s.Watch(t.Context(), k); err != nil {
				t.Fatal(err)
			}
			defer stop()
			complete(t, s, k, c, "done")
			select {
			case <-changed:
			case <-time.After(5 * time.Second):
				t.Error("nobody was woken")
			}
			if d, err := s.Describe(t.Context()); err != nil || d.Survives != ibid.ProcessKill {
				t.Errorf("Describe: %+v, %v", d, err)
			}
			nodes[1].Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
			if d, err := s.Describe(t.Context()); err != nil || d.Survives != 0 {
				t.Errorf("Describe does not count the weakest node: %+v, %v", d, err)
			}
		})
	}
}

// A slot is moved to and fro while callers run work under keys of it: every key
// has one effect, and everybody gets its answer.
func TestSlotMovesMeanwhile(t *testing.T) {
	t.Parallel()
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			nodes := startCluster(t)
			engine := newEngine(t, lib.open(t, "", addrs(nodes)...), nil)
			// Keys of one slot, so that all are on the way.
			slot := nodes[0].Do("CLUSTER", "KEYSLOT", rawKey("ibid:", engine.Digest(call("0").Key)))
			ids := []string{"0"}
			for i := 1; len(ids) < 8; i++ {
				id := fmt.Sprint(i)
				if slotOf(engine.Digest(call(id).Key)) == slot {
					ids = append(ids, id)
				}
			}
			n, _ := strconv.Atoi(slot)
			owner := 0
			for (owner+1)*16384/3-1 < n {
				owner++
			}
			var effects [8]atomic.Int64
			stop := make(chan struct{})
			var callers sync.WaitGroup
			var answers atomic.Int64
			for w := range 4 {
				callers.Go(func() {
					for i := w; ; i++ {
						select {
						case <-stop:
							return
						default:
						}
						n := i % min(len(ids), 1+i/100) // new keys appear while the slot moves
						data, _, err := engine.Do(t.Context(), call(ids[n]), func(context.Context) ([]byte, error) {
							effects[n].Add(1)
							return []byte(ids[n]), nil
						})
						if err == nil {
							answers.Add(1)
							if string(data) != ids[n] {
								t.Errorf("key %s was answered %q", ids[n], data)
							}
						}
					}
				})
			}
			for range 6 {
				next := (owner + 1) % 3
				moveSlot(nodes[owner], nodes[next], slot, nodes)
				owner = next
				time.Sleep(50 * time.Millisecond)
			}
			close(stop)
			callers.Wait()
			for i := range ids {
				if n := effects[i].Load(); n != 1 {
					t.Errorf("key %s had %d effects, want 1", ids[i], n)
				}
			}
			if n := answers.Load(); n < 100 {
				t.Errorf("%d answers: callers did not get through", n)
			}
			redirected := 0
			for _, n := range nodes {
				for line := range strings.Lines(n.Do("INFO", "errorstats")) {
					if strings.HasPrefix(line, "errorstat_MOVED") || strings.HasPrefix(line, "errorstat_ASK") {
						redirected++
					}
				}
			}
			if redirected == 0 {
				t.Error("nobody was redirected: the move did not meet a caller")
			}
		})
	}
}

// slotOf is the slot of a record's key: CRC-16/XMODEM of what stands in braces.
func slotOf(key ibid.Digest) string {
	tag := []byte(rawKey("ibid:", key))
	if end := strings.IndexByte(string(key[:]), '}'); end != 0 {
		tag = key[:]
		if end > 0 {
			tag = key[:end]
		}
	}
	crc := uint16(0)
	for _, b := range tag {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return fmt.Sprint(crc % 16384)
}
