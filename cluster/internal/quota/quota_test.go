package quota

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/governance/quota"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
)

// Nodes with many callers use a limit up while nodes and the leader of the bucket are killed. The limit is never
// exceeded, and each death wastes at most one lease and the units that the node's callers were about to note.
func TestLimitHoldsWhileNodesAreKilled(t *testing.T) {
	processtest.Leaks(t)
	const nodes = 3
	limit, rounds := stormtest.Sized(3000, 12000), stormtest.Sized(1, 5)
	s := startServers(t, 3)
	file := filepath.Join(t.TempDir(), "units")
	running := make([]*processtest.Process, nodes)
	begin := func(i int) {
		running[i] = processtest.Spawn(t, fmt.Sprintf("node n%d %d %s %s", i, limit, file, strings.Join(s.urls, " ")))
	}
	for i := range nodes {
		begin(i)
	}
	used := func() int {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return len(stormtest.WholeEntries(string(text)))
	}
	more := func(n int) { // waits until n more are used
		t.Helper()
		before, began := used(), time.Now()
		for used() < min(before+n, limit-2*limit/8) {
			if time.Since(began) > patience {
				t.Fatalf("%d units are used, and no more", used())
			}
			time.Sleep(2 * time.Millisecond) // other processes use them
		}
	}
	killed := 0
	for round := range rounds {
		more(limit / 20)
		running[round%nodes].Kill()
		killed++
		begin(round % nodes)
		more(limit / 20)
		leader := s.leader(t)
		if leader < 0 {
			continue
		}
		began := time.Now()
		s.all[leader].Kill()
		running[(round+1)%nodes].Kill()
		killed++
		begin((round + 1) % nodes)
		more(limit / 20)
		t.Logf("round %d: %d units are used; the leader was killed %v ago", round, used(),
			time.Since(began).Round(time.Millisecond))
		s.all[leader] = s.list[leader].Spawn(t)
	}
	for i, p := range running {
		line, err := p.Out.ReadString('\n')
		if err != nil || line != "used up\n" {
			t.Fatalf("node %d says %q, %v", i, line, err)
		}
		if err := p.Cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	q := opened(t, s, "looker", 1)
	r := taken(t, q)
	t.Logf("%d units of %d are used after %d kills of nodes; a lease is %d; %+v", used(), limit, killed,
		size(int64(limit), nodes), r)
	if n := used(); n > limit || n < limit-killed*(int(size(int64(limit), nodes))+callers) {
		t.Errorf("%d units of %d are used", n, limit)
	}
	if r.taken() != int64(limit) {
		t.Errorf("%d units are taken: %+v", r.taken(), r)
	}
}

// While the servers are unavailable, a node uses up its lease and then fails. It recovers with the servers.
func TestServersAreUnavailable(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	q := opened(t, s, "n1", 1)
	pool := pooled(t, q)
	c := pool.New(claim(80))
	take := func() (wait time.Duration, err error) {
		_, wait, err = c.Take(t.Context(), time.Now(), 1)
		return wait, err
	}
	for range 2 {
		if _, err := take(); err != nil {
			t.Fatal(err)
		}
	}
	s.all[0].Kill()
	held := 0
	var err error
	for err == nil {
		if _, err = take(); err == nil {
			held++
		}
	}
	if held != 8 {
		t.Errorf("%d units were used of a lease of 10, without servers", held)
	}
	t.Log(err)
	if q.Reach(t.Context()) == nil {
		t.Error("servers that are away are reached")
	}
	s.all[0] = s.list[0].Spawn(t)
	total := 2 + held
	for began := time.Now(); ; {
		wait, err := take()
		if wait > 0 {
			break
		}
		if err == nil {
			total++
		} else if time.Since(began) > patience {
			t.Fatal(err)
		}
	}
	if r := taken(t, q); total != 80 || r.taken() != 80 {
		t.Errorf("%d units of 80 are used; %+v", total, r)
	}
}

// A server that lost power returns with older state. Nodes that still run know what they have taken, so the
// limit is not exceeded.
func TestLostWrites(t *testing.T) {
	processtest.Leaks(t)
	const nodes, limit = 3, 240
	s := startServers(t, 1)
	var counters []*quota.Counter
	for i := range nodes {
		counters = append(counters, pooled(t, opened(t, s, fmt.Sprint("n", i), nodes)).New(claim(limit)))
	}
	used := 0
	use := func(most int) { // one after the other and with answers, until most are used or none are left
		t.Helper()
		for none, i, began := 0, 0, time.Now(); used < most && none < nodes; {
			_, wait, err := counters[i%nodes].Take(t.Context(), time.Now(), 1)
			switch {
			case err == nil && wait == 0:
				used, none, i = used+1, 0, i+1
			case err == nil:
				none, i = none+1, i+1
			case time.Since(began) > patience:
				t.Fatal(err)
			}
		}
	}
	restart := func(change func(store string)) {
		s.all[0].Kill()
		change(s.list[0].Store)
		s.all[0] = s.list[0].Spawn(t)
	}
	earlier := filepath.Join(t.TempDir(), "earlier")
	use(limit / 8)
	restart(func(store string) {
		if err := os.CopyFS(earlier, os.DirFS(store)); err != nil {
			t.Fatal(err)
		}
	})
	use(limit / 2)
	restart(func(store string) {
		if err := errors.Join(os.RemoveAll(store), os.CopyFS(store, os.DirFS(earlier))); err != nil {
			t.Fatal(err)
		}
	})
	use(2 * limit)
	q := opened(t, s, "looker", 1)
	if r := taken(t, q); used > limit || r.taken() != limit {
		t.Errorf("%d units of %d are used; %+v", used, limit, r)
	}
}

// noted is a source that notes the units of its leases, and which windows have no more.
type noted struct {
	quota.Source

	mu    sync.Mutex      // guards what follows
	units map[int64]int64 // by the start of the window
	empty map[int64]bool  // likewise
}

func (n *noted) Lease(ctx context.Context, c quota.Claim) (quota.Lease, error) {
	l, err := n.Source.Lease(ctx, c)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.units[l.Of] += l.Units; l.Last {
		n.empty[l.Of] = true
	}
	return l, err
}

// A window ends by the clock of the servers, and the next one has the full limit. Units are counted by window, since
// a slow machine may not use one up before it ends.
func TestNextWindowHasTheFullLimit(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	source := &noted{
		Source: opened(t, s, "n1", 1),
		units:  make(map[int64]int64),
		empty:  make(map[int64]bool),
	}
	pool := quota.NewPool(source)
	c := pool.New(quota.Claim{Policy: "w", Key: "k", Limit: 20, Window: time.Second})
	used := int64(0)
	for windows, began := 0, time.Now(); windows < 3; {
		_, wait, err := c.Take(t.Context(), time.Now(), 1)
		switch {
		case err != nil || time.Since(began) > patience:
			t.Fatal(wait, err)
		case wait == 0:
			used++
		case wait > time.Second:
			t.Fatal(wait)
		default:
			windows++
			<-time.After(wait)
		}
	}
	if err := pool.Close(t.Context()); err != nil { // and with it the leases ahead of need
		t.Fatal(err)
	}
	all := int64(0)
	for start, n := range source.units {
		all += n
		if n > 20 || n < 20 && source.empty[start] {
			t.Errorf("%d units are granted in a window of 20", n)
		}
	}
	if used > all || len(source.empty) < 3 {
		t.Errorf("%d units are used of %v; no more in %v", used, source.units, source.empty)
	}
}

// A missing or wrongly configured bucket is reported.
func TestNoBucket(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	q := opened(t, s, "n1", 1)
	if err := q.Reach(t.Context()); err != nil {
		t.Error(err)
	}
	mark := claim(1) // a server leaves an empty message for an expired key
	if _, err := q.o.Asker.Ask(t.Context(), keys("main")+token(&mark), nil, nil); err != nil {
		t.Fatal(err)
	}
	if l, err := q.Lease(t.Context(), mark); err != nil || l.Units != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	other := New(q.o)
	other.bucket.cluster = "other"
	if err := other.Reach(t.Context()); err == nil || !strings.Contains(err.Error(), "exthost cluster permissions") {
		t.Error(err)
	}
	if _, err := other.Lease(t.Context(), claim(1)); err == nil {
		t.Error("there is a lease without a bucket")
	}
	s.api(t, "DELETE", struct{}{})
	if _, err := q.Lease(t.Context(), claim(1)); err == nil ||
		!strings.Contains(err.Error(), "of the bucket exthost_main_quota: ") {
		t.Errorf("a lease without a bucket: %v", err)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.History, c.Discard = 5, "old" },
		func(c *Config) { c.MaxAge = int64(time.Minute) },
		func(c *Config) { c.Storage, c.MaxBytes = "memory", 1<<20 },
	} {
		c := Stream("main", 1)
		change(&c)
		s.api(t, "CREATE", c)
		if err := q.Reach(t.Context()); err == nil || !strings.Contains(err.Error(), "not one for counters") {
			t.Errorf("%+v: %v", c, err)
		}
		s.api(t, "DELETE", struct{}{})
	}
}

// A fault of one counter does not affect others.
func TestOneCounter(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	first := opened(t, s, "n1", 1)
	second := opened(t, s, "n2", 1)
	c := claim(80)
	if _, err := first.Lease(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	pool := pooled(t, second)
	c.Window = time.Hour
	differs := pool.New(c)
	c.Policy, c.Limit = "q", 800
	other := pool.New(c)
	for range 5 {
		if _, _, err := differs.Take(t.Context(), time.Now(), 1); err == nil ||
			!strings.Contains(err.Error(), "at node n1") {
			t.Errorf("windows that differ are counted as one: %v", err)
		}
		if _, wait, err := other.Take(t.Context(), time.Now(), 50); err != nil || wait != 0 {
			t.Errorf("%v, %v", wait, err)
		}
	}
}

// An invalid record grants no units, and is reported.
func TestInvalidRecord(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	q := opened(t, s, "n1", 1)
	c := claim(80)
	c.Window = time.Hour
	for _, text := range []string{`x`, `null`, `{}`, `[]`, `{"window":3600e9}`, `{"window":-1}`,
		`{"start":9223372036854775000,"window":3600000000000}`, `{"start":-1,"window":3600000000000}`,
		`{"start":%d,"window":3600000000000,"limit":80,"by":"n2","taken":{"n2.a":-1000}}`,
		`{"start":%d,"window":3600000000000,"limit":80,"by":"n2","rest":-1000}`,
		`{"start":%d,"window":3600000000000,"limit":80,"by":"n2","taken":{"n2.a":9223372036854775807,"n2.b":9223372036854775807}}`} {
		text = strings.Replace(text, "%d", fmt.Sprint(time.Now().Truncate(c.Window).UnixNano()), 1)
		if _, err := q.o.Asker.Ask(t.Context(), keys("main")+token(&c), nil, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if l, err := q.Lease(t.Context(), c); err == nil ||
			!strings.Contains(err.Error(), "is no counter; nats kv del exthost_main_quota "+token(&c)) {
			t.Errorf("%s: %+v, %v", text, l, err)
		}
	}
	deleted := map[string]string{"KV-Operation": "DEL"}
	if _, err := q.o.Asker.Ask(t.Context(), keys("main")+token(&c), deleted, nil); err != nil {
		t.Fatal(err)
	}
	if l, err := q.Lease(t.Context(), c); err != nil || l.Units != 10 {
		t.Errorf("%+v, %v", l, err)
	}
}

// ahead is an asker whose clock is ahead.
type ahead struct {
	Asker
	by time.Duration
}

func (a ahead) Ask(ctx context.Context, subject string, header map[string]string, data []byte) ([]byte, error) {
	answer, err := a.Asker.Ask(ctx, subject, header, data)
	if err != nil || subject != infoOf("main") {
		return answer, err
	}
	var info map[string]json.RawMessage
	if err := json.Unmarshal(answer, &info); err != nil {
		return nil, err
	}
	info["ts"], err = json.Marshal(time.Now().Add(a.by))
	if err != nil {
		return nil, err
	}
	return json.Marshal(info)
}

// After the clock of the servers was set back, units taken in the future window count for one window length
// only.
func TestClockSetBack(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	early := opened(t, s, "n1", 1)
	early = New(Options{
		Cluster: "main",
		Node:    "n1",
		Run:     "r",
		Asker:   ahead{early.o.Asker, 10_000 * time.Hour},
		Nodes:   early.o.Nodes,
	})
	q := opened(t, s, "n2", 1)
	c := quota.Claim{Policy: "p", Key: "k", Limit: 8, Window: time.Minute}
	for {
		l, err := early.Lease(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if l.Last {
			break
		}
	}
	l, err := q.Lease(t.Context(), c)
	if wait := time.Until(l.Ends); err != nil || !l.Last || l.Units != 0 || wait > c.Window {
		t.Errorf("%+v, which is in %v; %v", l, wait, err)
	}
}

type silent struct{}

func (silent) Ask(ctx context.Context, subject string, _ map[string]string, _ []byte) ([]byte, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("no answer about %s: %w", subject, context.Cause(ctx))
}

// Servers do not reply to a forbidden request. The error names the permissions that are needed.
func TestMissingPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Cluster: "main", Node: "n1", Run: "r", Asker: silent{}, Nodes: func() int { return 1 }})
		for _, err := range []error{
			q.Reach(t.Context()),
			func() error { _, err := q.Lease(t.Context(), claim(1)); return err }(),
		} {
			if err == nil || !strings.Contains(err.Error(), "exthost cluster permissions n1") {
				t.Error(err)
			}
		}
	})
}
