package memstore

import "github.com/ibid-go/ibid"

// slot is the place of one record.
type slot struct {
	key  ibid.Digest
	data []byte // the record at rest; nil in a free slot
	gone int64  // when it is over, on the store's clock
	rank int32  // its place in the queue; in a free slot the next free one
	hash uint32
}

// chunk is how many slots are allocated at once: 256 of 72 bytes fill a size
// class of the allocator.
const chunk = 256

// table finds slots by key: an open-addressed index of slot numbers, linear
// probing, at most three quarters full. A Go map with the same contents costs
// twice as much per record and cannot say which record is over first.
type table struct {
	chunks []*[chunk]slot
	index  []uint32 // slot + 1; 0 is empty
	used   int      // keys in the index
	next   int      // slots ever used
	free   int32    // first free slot + 1
}

func (t *table) slot(at int) *slot { return &t.chunks[at/chunk][at%chunk] }

func (t *table) find(key *ibid.Digest, hash uint32) int {
	if t.used == 0 {
		return none
	}
	mask := len(t.index) - 1
	for i := int(hash) & mask; t.index[i] != 0; i = (i + 1) & mask {
		at := int(t.index[i]) - 1
		if s := t.slot(at); s.hash == hash && s.key == *key {
			return at
		}
	}
	return none
}

// add returns a slot for key, which must not have one.
func (t *table) add(key *ibid.Digest, hash uint32) int {
	if 4*(t.used+1) > 3*len(t.index) {
		t.grow()
	}
	at := t.next
	if t.free > 0 {
		at = int(t.free) - 1
		t.free = t.slot(at).rank
	} else {
		if at/chunk == len(t.chunks) {
			t.chunks = append(t.chunks, new([chunk]slot))
		}
		t.next++
	}
	s := t.slot(at)
	s.key, s.hash = *key, hash
	t.enter(at, hash)
	t.used++
	return at
}

func (t *table) enter(at int, hash uint32) {
	mask := len(t.index) - 1
	i := int(hash) & mask
	for t.index[i] != 0 {
		i = (i + 1) & mask
	}
	t.index[i] = uint32(at) + 1
}

func (t *table) grow() {
	old := t.index
	t.index = make([]uint32, max(8, 2*len(old)))
	for _, n := range old {
		if n != 0 {
			t.enter(int(n)-1, t.slot(int(n)-1).hash)
		}
	}
}

// remove frees a slot. Later members of its run move up, so that no gap hides
// them.
func (t *table) remove(at int) {
	mask := len(t.index) - 1
	gap := int(t.slot(at).hash) & mask
	for t.index[gap] != uint32(at)+1 {
		gap = (gap + 1) & mask
	}
	for i := (gap + 1) & mask; t.index[i] != 0; i = (i + 1) & mask {
		home := int(t.slot(int(t.index[i])-1).hash) & mask
		if (i-home)&mask >= (i-gap)&mask {
			t.index[gap] = t.index[i]
			gap = i
		}
	}
	t.index[gap] = 0
	*t.slot(at) = slot{rank: t.free}
	t.free = int32(at) + 1
	t.used--
}

// queue is a binary heap of slots: the record that is over first stands first.
type queue []uint32

func (q queue) less(t *table, i, j int) bool {
	return t.slot(int(q[i])).gone < t.slot(int(q[j])).gone
}

func (q queue) put(t *table, i int, at uint32) {
	q[i] = at
	t.slot(int(at)).rank = int32(i)
}

func (q queue) swap(t *table, i, j int) {
	a, b := q[i], q[j]
	q.put(t, i, b)
	q.put(t, j, a)
}

func (q *queue) push(t *table, at int) {
	*q = append(*q, 0)
	q.put(t, len(*q)-1, uint32(at))
	q.fix(t, len(*q)-1)
}

// pop takes the first slot off.
func (q *queue) pop(t *table) {
	last := len(*q) - 1
	q.swap(t, 0, last)
	*q = (*q)[:last]
	if last > 0 {
		q.fix(t, 0)
	}
}

// fix moves the slot at i to where it belongs.
func (q queue) fix(t *table, i int) {
	for i > 0 && q.less(t, i, (i-1)/2) {
		q.swap(t, i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q); child++ {
			if q.less(t, child, first) {
				first = child
			}
		}
		if first == i {
			return
		}
		q.swap(t, i, first)
		i = first
	}
}
