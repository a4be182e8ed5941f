package supervisor

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/stormtest"
)

var defaults = Options{Restart: Restart{MaxAttempts: 5}}.withDefaults()

func newPolicy(o Restart, seed uint64) *policy {
	return &policy{Restart: o, rand: rand.New(rand.NewPCG(seed, 0))}
}

// storm is the number of random events in the model tests.
var storm = stormtest.Sized(20_000, 1_000_000)

func TestPolicyBackoff(t *testing.T) {
	p := newPolicy(Restart{
		MaxAttempts:  -1,
		Window:       time.Minute,
		BaseBackoff:  time.Second,
		MaxBackoff:   16 * time.Second,
		HealthyAfter: time.Minute,
	}, 1)
	delays := []time.Duration{0, 2, 4, 8, 16, 16, 16, 16}
	smallest, largest := make([]time.Duration, len(delays)), make([]time.Duration, len(delays))
	for round := range 2000 {
		p.reset()
		for i, base := range delays {
			d, ok := p.failed(time.Time{}, 0)
			if !ok || d < base*time.Second || d > base*time.Second*6/5 || p.attempt() != i+1 {
				t.Fatalf("restart %d (attempt %d): %s, %v; the delay is %d s", i, p.attempt(), d, ok, base)
			}
			if largest[i] = max(largest[i], d); round == 0 {
				smallest[i] = d
			}
			smallest[i] = min(smallest[i], d)
		}
	}
	for i, base := range delays { // the jitter uses its whole range
		if smallest[i] > base*time.Second*101/100 || largest[i] < base*time.Second*119/100 {
			t.Errorf("restart %d always waited between %s and %s", i, smallest[i], largest[i])
		}
	}
	if p.recent != nil {
		t.Error("an unlimited policy remembers failures")
	}
}

// The default budget rides out an outage of half a minute.
func TestDefaultBudgetLastsHalfAMinute(t *testing.T) {
	for seed := range uint64(100) {
		p, now := newPolicy(defaults.Restart, seed), time.Time{}
		for d, ok := p.failed(now, 0); ok; d, ok = p.failed(now, 0) {
			now = now.Add(d)
		}
		if lasted := now.Sub(time.Time{}); lasted < 30*time.Second || lasted > 36*time.Second || p.attempt() != 5 {
			t.Errorf("spent after %s and %d restarts", lasted, p.attempt())
		}
	}
}

// Delays near the largest duration do not overflow.
func TestLongestBackoff(t *testing.T) {
	p := newPolicy(Restart{MaxAttempts: -1, BaseBackoff: math.MaxInt64 / 3, MaxBackoff: math.MaxInt64}, 1)
	for range 10 {
		if d, _ := p.failed(time.Time{}, 0); d < 0 {
			t.Fatal(d)
		}
	}
}

func TestPolicyBudget(t *testing.T) {
	for _, tt := range []struct {
		name    string
		max     int
		at      []time.Duration // of failures
		allowed []bool
	}{
		{"never", 0, []time.Duration{0}, []bool{false}},
		{"one", 1, []time.Duration{0, 299 * time.Second}, []bool{true, false}},
		{"the window slides", 2,
			[]time.Duration{0, 200 * time.Second, 300 * time.Second, 499 * time.Second, 600 * time.Second},
			[]bool{true, true, true, false, true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := defaults.Restart
			o.MaxAttempts = tt.max
			p := newPolicy(o, 1)
			var got []bool
			for _, at := range tt.at {
				_, ok := p.failed(time.Time{}.Add(at), 0)
				got = append(got, ok)
			}
			if !slices.Equal(got, tt.allowed) {
				t.Errorf("allowed %v, want %v", got, tt.allowed)
			}
		})
	}
}

func TestHealthyResetsBackoff(t *testing.T) {
	p := newPolicy(defaults.Restart, 1)
	now := time.Time{}
	for range 4 {
		p.failed(now, 0)
	}
	now = now.Add(10 * time.Minute)
	if d, ok := p.failed(now, time.Minute-1); !ok || p.restartsInRow != 5 {
		t.Errorf("not yet healthy: %s, %v, streak %d; want the backoff to go on", d, ok, p.restartsInRow)
	}
	if d, ok := p.failed(now, time.Minute); !ok || d != 0 {
		t.Errorf("healthy: %s, %v; want an immediate restart", d, ok)
	}
	if d, ok := p.failed(now, 0); !ok || d < 2*time.Second || d > 2400*time.Millisecond {
		t.Errorf("after that: %s, %v; want twice the base backoff", d, ok)
	}
}

// Negative values mean no delay, and that any time in Ready is healthy.
func TestPolicyWithoutDelays(t *testing.T) {
	for name, o := range map[string]Restart{
		"no base":         {MaxAttempts: -1, BaseBackoff: -1},
		"no bound":        {MaxAttempts: -1, MaxBackoff: -1},
		"healthy at once": {MaxAttempts: -1, HealthyAfter: -1},
	} {
		p := newPolicy(Options{Restart: o}.withDefaults().Restart, 1)
		for range 100 {
			if d, ok := p.failed(time.Time{}, 1); !ok || d != 0 {
				t.Fatalf("%s: %s, %v", name, d, ok)
			}
		}
	}
	p := newPolicy(Options{Restart: Restart{MaxAttempts: -1, HealthyAfter: -1}}.withDefaults().Restart, 1)
	for range 10 {
		p.failed(time.Time{}, 0)
	}
	if p.restartsInRow != 10 {
		t.Error("what was never Ready counts as healthy")
	}
}

// TestPolicyModel compares the policy with a model that keeps the whole history and uses the same jitter.
func TestPolicyModel(t *testing.T) {
	o := Restart{
		MaxAttempts:  4,
		Window:       time.Minute,
		BaseBackoff:  time.Second,
		MaxBackoff:   7 * time.Second,
		HealthyAfter: 20 * time.Second,
	}
	p, random, jitter := newPolicy(o, 7), rand.New(rand.NewPCG(1, 1)), rand.New(rand.NewPCG(7, 0))
	var granted []time.Duration
	var now time.Duration
	streak, refused := 0, 0
	for i := range storm {
		now += time.Duration(random.Int64N(int64(25 * time.Second)))
		healthy := time.Duration(random.Int64N(int64(22 * time.Second)))
		if healthy >= o.HealthyAfter {
			streak = 0
		}
		inWindow := 0
		for j := len(granted) - 1; j >= 0 && granted[j] > now-o.Window; j-- {
			inWindow++
		}
		var want time.Duration
		wantOK := inWindow < 4
		if wantOK {
			if streak > 0 {
				want = []time.Duration{2, 4, 7}[min(streak, 3)-1] * time.Second
				want += time.Duration(jitter.Int64N(int64(want/5) + 1))
			}
			granted = append(granted, now)
			streak++
		} else {
			refused++
		}
		got, ok := p.failed(time.Time{}.Add(now), healthy)
		if got != want || ok != wantOK {
			t.Fatalf("event %d at %s: %s, %v, want %s, %v", i, now, got, ok, want, wantOK)
		}
	}
	if refused == 0 || refused == storm {
		t.Errorf("the events refused %d restarts: they prove little", refused)
	}
}
