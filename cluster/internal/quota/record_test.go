package quota

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/governance/quota"
)

// model is a bucket with one key, and nodes that lease from it. Writes may be late, and answers may be lost.
type model struct {
	t        *testing.T
	rand     *rand.Rand
	now      int64
	window   int64
	record   *record
	revision int
	late     []write // on their way
	within   bool    // during a lease of another node
	nodes    []*modelNode
	runs     int
	granted  map[int64]int64 // by window: granted units
	deaths   map[int64]int64 // by window: deaths of runs
	calm     bool            // nothing is lost
	bytes    bool            // a call may use more than is left
}

type write struct {
	r        *record
	expected int
}

type modelNode struct {
	name, run string
	limit     int64
	seen      own
	of, held  int64
	debt      int64
	last      bool
}

func (m *model) put(w write) bool {
	if w.expected != m.revision {
		return false
	}
	m.record = w.r
	m.revision++
	return true
}

// lease is one try of a node.
func (m *model) lease(n *modelNode) {
	if n.last && n.of == m.now-m.now%m.window {
		return
	}
	read, revision := m.record, m.revision
	// another node's lease comes first
	if other := m.nodes[m.rand.IntN(len(m.nodes))]; !m.calm && !m.within && other != n && m.rand.IntN(4) == 0 {
		m.within = true
		m.lease(other)
		m.within = false
	}
	a, err := settle(read, &want{
		Claim: quota.Claim{
			Policy: "p",
			Limit:  n.limit,
			Window: time.Duration(m.window),
			Of:     n.of,
			Held:   n.held,
			Debt:   n.debt,
		},
		node:  n.name,
		run:   n.run,
		nodes: len(m.nodes),
		now:   m.now,
		seen:  n.seen,
	})
	if err != nil {
		m.t.Fatal(err)
	}
	if a.next != nil {
		w := write{a.next, revision}
		switch chance := m.rand.IntN(8); {
		case m.calm:
		case chance == 0: // the answer is lost
			m.put(w)
			return
		case chance == 1: // the write is stuck in a server
			m.late = append(m.late, w)
			return
		}
		if !m.put(w) {
			return
		}
	}
	n.seen = a.seen
	if n.of != a.lease.Of {
		n.of, n.held = a.lease.Of, 0
	}
	n.held += a.lease.Units - n.debt
	n.debt, n.last = 0, a.lease.Last
	m.granted[n.of] += a.lease.Units
	if full := size(n.limit, len(m.nodes)); n.held > full {
		m.t.Errorf("a node holds %d, and a lease is %d", n.held, full)
	}
	if n.held < 1 && !n.last {
		m.t.Errorf("a node holds %d and is told that there is more", n.held)
	}
}

func (m *model) restart(n *modelNode) {
	m.deaths[m.now-m.now%m.window]++
	m.runs++
	*n = modelNode{name: n.name, run: fmt.Sprintf("%s.%d", n.name, m.runs), limit: n.limit}
}

func (m *model) check() {
	least := m.nodes[0].limit
	most := least
	for _, n := range m.nodes {
		least, most = min(least, n.limit), max(most, n.limit)
	}
	if r := m.record; r != nil {
		if r.taken() > most {
			m.t.Fatalf("%d are taken of %d: %+v", r.taken(), most, r)
		}
		if r.Limit == least && m.granted[r.Start] > r.taken() {
			m.t.Fatalf("nodes were given %d, and %d are taken: %+v", m.granted[r.Start], r.taken(), r)
		}
		if len(r.Taken) > maxRuns {
			m.t.Fatalf("a record names %d runs", len(r.Taken))
		}
	}
	for start, n := range m.granted {
		if n > most {
			m.t.Fatalf("%d were given in window %d, of %d", n, start, most)
		}
	}
}

// drain lets the nodes use up the window.
func (m *model) drain() {
	m.calm = true
	start := m.now - m.now%m.window
	least, full := m.nodes[0].limit, int64(0)
	for _, n := range m.nodes {
		least, full = min(least, n.limit), max(full, size(n.limit, len(m.nodes)))
		for !n.last || n.of != start {
			m.lease(n)
			n.held = 0
		}
	}
	m.check()
	if left := least - m.granted[start]; left > m.deaths[start]*full && !m.bytes {
		m.t.Errorf("%d of %d are not given, %d runs died, a lease is %d: %+v", left, least, m.deaths[start], full,
			m.record)
	}
}

// Whatever is late, lost or dies: no window grants more than the limit, no node holds more than a lease, and
// units that nobody holds or lost are granted.
func TestLimitHoldsWhateverIsLost(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := &model{
			t:       t,
			rand:    r,
			window:  1000,
			bytes:   seed%2 == 1,
			granted: make(map[int64]int64),
			deaths:  make(map[int64]int64),
		}
		limit := 1 + r.Int64N(400)
		for i := range 1 + r.IntN(5) {
			n := &modelNode{name: fmt.Sprint("n", i), limit: limit}
			if r.IntN(20) == 0 {
				n.limit = 1 + r.Int64N(400)
			}
			m.nodes = append(m.nodes, n)
			m.restart(n)
		}
		for range 400 {
			n := m.nodes[r.IntN(len(m.nodes))]
			switch r.IntN(12) {
			case 0, 1, 2, 3, 4:
				m.lease(n)
			case 5, 6, 7:
				if n.of == m.now-m.now%m.window && n.held > 0 {
					n.held -= 1 + r.Int64N(n.held)
				}
			case 8:
				if m.bytes && n.held > 0 && r.IntN(4) == 0 { // bytes: the last response may exceed what is left
					n.held -= r.Int64N(20)
				}
			case 9:
				m.now += r.Int64N(80)
			case 10:
				if len(m.late) > 0 {
					i := r.IntN(len(m.late))
					m.put(m.late[i])
					m.late = append(m.late[:i], m.late[i+1:]...)
				}
			case 11:
				if r.IntN(10) == 0 {
					m.restart(n)
				}
			}
			m.check()
		}
		m.drain()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// A single node gets every unit of a window, in leases of an eighth.
func TestOneNodeGetsEveryUnit(t *testing.T) {
	for _, limit := range []int64{1, 2, 7, 8, 60, 1000} {
		var r *record
		var sum, asked int64
		var seen own
		for {
			a, err := settle(r,
				&want{
					Claim: quota.Claim{Limit: limit, Window: time.Minute},
					node:  "n",
					run:   "n.r",
					nodes: 1,
					now:   1,
					seen:  seen,
				})
			if err != nil {
				t.Fatal(err)
			}
			sum += a.lease.Units
			asked++
			if a.next != nil {
				r, seen = a.next, a.seen
			}
			if a.lease.Last {
				break
			}
		}
		if sum != limit || asked > max(limit/max(limit/8, 1)+1, 1) {
			t.Errorf("limit %d: %d in %d leases", limit, sum, asked)
		}
	}
}

// Nodes with different settings count together as far as possible.
func TestDifferentSettings(t *testing.T) {
	a := want{Claim: quota.Claim{Policy: "p", Limit: 80, Window: time.Minute}, node: "a", run: "a.1", nodes: 2}
	b := want{Claim: quota.Claim{Policy: "p", Limit: 16, Window: time.Minute}, node: "b", run: "b.1", nodes: 2}
	first, err := settle(nil, &a)
	if err != nil || first.lease.Units != 5 || first.lease.Note != "" {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := settle(first.next, &b)
	if err != nil || second.lease.Units != 1 || second.lease.Note == "" || second.next.Limit != 16 ||
		second.next.By != "b" {
		t.Fatalf("%+v, %v", second, err)
	}
	a.seen = first.seen
	third, err := settle(second.next, &a)
	if err != nil || third.lease.Units != 1 || third.lease.Note == "" || third.next.Limit != 16 {
		t.Fatalf("%+v, %v", third, err)
	}
	b.Limit, b.seen = 800, second.seen
	if got, err := settle(third.next, &b); err != nil || got.lease.Note != "" || got.next.Limit != 800 {
		t.Fatalf("who stated the smaller limit states a larger: %+v, %v", got, err)
	}
	b.Window = time.Hour
	if _, err := settle(third.next, &b); err == nil {
		t.Fatal("a minute and an hour are counted as one")
	} else if !strings.Contains(err.Error(), "until 1970-01-01T00:01:00Z") ||
		!strings.Contains(err.Error(), "another name of the policy") {
		t.Error(err)
	}
	b.now = int64(2 * time.Minute)
	if got, err := settle(third.next, &b); err != nil || got.next.Window != int64(time.Hour) {
		t.Fatalf("%+v, %v", got, err)
	}
}

// When one node lowers a limit below what has been taken, the lower limit binds the other nodes too, and they are told.
func TestLoweredLimit(t *testing.T) {
	a := want{Claim: quota.Claim{Policy: "p", Limit: 80, Window: time.Minute}, node: "a", run: "a.1", nodes: 1}
	b := want{Claim: quota.Claim{Policy: "p", Limit: 8, Window: time.Minute}, node: "b", run: "b.1", nodes: 1}
	first, err := settle(nil, &a)
	if err != nil || first.lease.Units != 10 {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := settle(first.next, &b)
	if err != nil || second.lease.Units != 0 || !second.lease.Last || second.next == nil {
		t.Fatalf("%+v, %v", second, err)
	}
	a.seen = first.seen
	if third, err := settle(second.next, &a); err != nil || third.lease.Units != 0 || !third.lease.Last ||
		!strings.Contains(third.lease.Note, "node b lets 8 through") || third.next != nil {
		t.Fatalf("%+v, %v", third, err)
	}
	b.seen = second.seen
	if again, err := settle(second.next, &b); err != nil || again.next != nil {
		t.Fatalf("what is known is stored again: %+v, %v", again, err)
	}
}

// A record lists a bounded number of runs, but counts all.
func TestManyRuns(t *testing.T) {
	var r *record
	for i := range int64(200) {
		a, err := settle(r, &want{
			Claim: quota.Claim{Limit: 1000, Window: time.Minute},
			node:  "n",
			run:   fmt.Sprint("n.", i),
			nodes: 200,
		})
		if err != nil || a.lease.Units != 1 {
			t.Fatalf("%+v, %v", a, err)
		}
		if r = a.next; r.taken() != i+1 || len(r.Taken) > maxRuns {
			t.Fatalf("after %d: %+v", i+1, r)
		}
	}
}
