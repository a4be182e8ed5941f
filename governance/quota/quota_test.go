package quota_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/governance/quota"
)

// source grants leases of a size until a limit is reached.
type source struct {
	mu    sync.Mutex
	size  int64
	taken map[string]int64 // by window and key
	asked int
	seen  int // calls of Reach
	err   error
	note  string
	hold  chan struct{} // if not nil, answers wait for it
	wrong string        // key of a counter without leases
}

func (s *source) Reach(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen++
	return s.err
}

func (s *source) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *source) Lease(ctx context.Context, c quota.Claim) (quota.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if hold := s.hold; hold != nil {
		s.mu.Unlock()
		select {
		case <-hold:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	if err := errors.Join(ctx.Err(), s.err); err != nil {
		return quota.Lease{}, err
	}
	if c.Key == s.wrong {
		return quota.Lease{}, &quota.CounterError{Err: errWrong}
	}
	now := time.Now()
	start := now.Truncate(c.Window)
	held := -c.Debt
	if c.Of == start.UnixNano() {
		held += c.Held
	}
	if s.taken == nil {
		s.taken = make(map[string]int64)
	}
	key := fmt.Sprint(start.UnixNano(), c.Policy, c.Key)
	free := c.Limit - s.taken[key]
	units := min(max(s.size-held, 0), free)
	s.taken[key] += units
	return quota.Lease{
		Of:    start.UnixNano(),
		Units: units,
		Size:  s.size,
		Last:  units == free,
		Ends:  start.Add(c.Window),
		Note:  s.note,
	}, nil
}

var errWrong = errors.New("what is there is no counter")

func pool(t testing.TB, s quota.Source) *quota.Pool {
	p := quota.NewPool(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

func claim(limit int64) quota.Claim {
	return quota.Claim{Policy: "p", Key: "k", Limit: limit, Window: time.Minute}
}

// Many callers get exactly the limit, and few calls ask the source.
func TestCallersGetTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{size: 50}
		c := pool(t, s).New(claim(1000))
		var allowed, denied atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 100 {
					_, wait, err := c.Take(t.Context(), time.Now(), 1)
					switch {
					case err != nil:
						t.Error(err)
					case wait == 0:
						allowed.Add(1)
					case wait > time.Minute:
						t.Error(wait)
					default:
						denied.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if allowed.Load() != 1000 || denied.Load() != 600 {
			t.Errorf("%d are allowed and %d denied", allowed.Load(), denied.Load())
		}
		if s.asked > 60 {
			t.Errorf("the source was asked %d times for 20 leases", s.asked)
		}
		asked := s.asked
		_, wait, _ := c.Take(t.Context(), time.Now(), 1)
		if wait == 0 || s.asked != asked {
			t.Error("the source is asked although nothing is left")
		}
		time.Sleep(wait)
		if _, wait, err := c.Take(t.Context(), time.Now(), 1); wait != 0 || err != nil {
			t.Errorf("in the next window: %v, %v", wait, err)
		}
	})
}

// While the source fails, leased units are used. Then calls fail, at once except for the first.
func TestLeasedUnitsOutliveTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{size: 10}
		p := pool(t, s)
		c := p.New(claim(1000))
		if _, _, err := c.Take(t.Context(), time.Now(), 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		away := errors.New("away")
		s.set(func() { s.err = away })
		held := 0
		var err error
		for err == nil {
			if _, _, err = c.Take(t.Context(), time.Now(), 1); err == nil {
				held++
			}
		}
		if held != 9 || !errors.Is(err, away) || !errors.Is(p.Err("p"), away) {
			t.Errorf("%d units after the first, then %v", held, err)
		}
		asked := s.asked
		for range 100 {
			if _, _, err := c.Take(t.Context(), time.Now(), 1); !errors.Is(err, away) {
				t.Fatal(err)
			}
		}
		if s.asked > asked+1 {
			t.Errorf("who is away was asked %d times", s.asked-asked)
		}
		s.set(func() { s.err = nil })
		time.Sleep(time.Second)
		if _, wait, err := c.Take(t.Context(), time.Now(), 1); err != nil || wait != 0 || p.Err("p") != nil {
			t.Errorf("%v, %v, %v", wait, err, p.Err("p"))
		}
	})
}

// A fault of one counter is reported for its policy. It does not affect other counters, and they do not hide
// it.
func TestOneCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{size: 1, wrong: "k"}
		p := pool(t, s)
		bad, other := p.New(claim(1000)), claim(1000)
		other.Key = "other"
		well := p.New(other)
		other.Policy = "q"
		apart := p.New(other)
		for range 100 {
			if _, _, err := bad.Take(t.Context(), time.Now(), 1); !errors.Is(err, errWrong) {
				t.Fatal(err)
			}
		}
		if s.asked != 1 {
			t.Errorf("the source was asked %d times about a counter that has no leases", s.asked)
		}
		for _, c := range []*quota.Counter{well, apart} {
			if _, wait, err := c.Take(t.Context(), time.Now(), 1); err != nil || wait != 0 {
				t.Errorf("%v, %v", wait, err)
			}
		}
		if !errors.Is(p.Err("p"), errWrong) || p.Err("q") != nil {
			t.Errorf("%v, %v", p.Err("p"), p.Err("q"))
		}
		s.set(func() { s.wrong, s.note = "", "odd" })
		time.Sleep(time.Second)
		if _, wait, err := bad.Take(t.Context(), time.Now(), 1); err != nil || wait != 0 || p.Err("p") != nil ||
			p.Note("p") != "odd" {
			t.Errorf("%v, %v, %v, %q", wait, err, p.Err("p"), p.Note("p"))
		}
		synctest.Wait()
		s.set(func() { s.note = "" })
		if _, _, err := well.Take(t.Context(), time.Now(), 5); err != nil || p.Note("p") != "odd" {
			t.Errorf("%v, %q", err, p.Note("p"))
		}
		synctest.Wait()
		if time.Sleep(time.Minute); p.Note("p") != "" {
			t.Error("it is said although the window has ended")
		}
	})
}

// A caller that gives up stops waiting, and the next one gets a lease.
func TestCanceledTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{size: 10, hold: make(chan struct{})}
		p := pool(t, s)
		c := p.New(claim(1000))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, _, err := c.Take(ctx, time.Now(), 1); !errors.Is(err, context.Canceled) || p.Err("p") != nil {
			t.Errorf("%v, %v", err, p.Err("p"))
		}
		close(s.hold)
		if _, wait, err := c.Take(t.Context(), time.Now(), 1); err != nil || wait != 0 {
			t.Error(err)
		}
	})
}

// Charged units count, beyond the limit and without a lease too.
func TestCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{size: 100}
		c := pool(t, s).New(claim(1000))
		c.Charge(time.Now(), 50)
		if _, _, err := c.Take(t.Context(), time.Now(), 10); err != nil ||
			s.taken[fmt.Sprint(time.Now().Truncate(time.Minute).UnixNano(), "p", "k")] != 150 {
			t.Fatalf("%v: %v", err, s.taken)
		}
		c.Charge(time.Now(), 890)
		synctest.Wait()
		if _, wait, err := c.Take(t.Context(), time.Now(), 1); err != nil || wait != 0 {
			t.Fatalf("%v, %v", wait, err)
		}
		c.Charge(time.Now(), 400)
		synctest.Wait()
		if _, wait, err := c.Take(t.Context(), time.Now(), 1); err != nil || wait == 0 {
			t.Fatalf("1351 of 1000 are used, and there is more: %v", err)
		}
	})
}

// The number of counters is bounded, and counters of current windows are kept.
func TestCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &quota.Counters[int]{
			Pool: pool(t, &source{size: 1}),
			Claims: func(k int) []quota.Claim {
				return []quota.Claim{{Policy: "p", Key: fmt.Sprint(k), Limit: 1, Window: time.Minute}}
			},
		}
		use := func(k int) error {
			c, err := s.Of(k, time.Now())
			if err == nil {
				_, _, err = c[0].Take(t.Context(), time.Now(), 1)
			}
			return err
		}
		for k := range quota.MaxCounters {
			if err := use(k); err != nil {
				t.Fatal(err)
			}
		}
		if err := use(quota.MaxCounters); err == nil {
			t.Error("there is one more")
		}
		if err := use(0); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if err := use(quota.MaxCounters); err != nil {
			t.Error(err)
		}
	})
}

// The source is asked periodically while its counters are used, and no longer.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{size: 10}
		p := pool(t, s)
		asked := func() int {
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.seen
		}
		for range 2 {
			before := asked()
			p.Watch(true)
			p.Watch(true) // watches already
			time.Sleep(time.Minute)
			if n := asked() - before; n != 7 {
				t.Errorf("asked %d times in a minute", n)
			}
			p.Watch(false)
			p.Watch(false)
			before = asked()
			if time.Sleep(time.Hour); asked() != before {
				t.Error("the source is asked though nobody counts")
			}
		}
	})
}

// A note stays until its cause is gone, and Close waits for leases ahead of need.
func TestNoteAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{size: 10, note: "odd"}
		p := quota.NewPool(s)
		p.Watch(true)
		c := p.New(claim(1000))
		if _, _, err := c.Take(t.Context(), time.Now(), 1); err != nil || p.Note("p") != "odd" || p.Note("q") != "" {
			t.Errorf("%v, %q", err, p.Note("p"))
		}
		s.set(func() { s.note, s.hold = "", make(chan struct{}) })
		if _, _, err := c.Take(t.Context(), time.Now(), 9); err != nil { // requests more
			t.Error(err)
		}
		synctest.Wait()
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, _, err := quota.NewPool(nil).New(claim(1)).Take(t.Context(), time.Now(), 1); err == nil {
			t.Error("there is a lease from nowhere")
		}
	})
}
