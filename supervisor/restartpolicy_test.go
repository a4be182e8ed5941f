package supervisor

import (
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
	bounds := []time.Duration{0, 1, 2, 4, 8, 16, 16, 16}
	largest := make([]time.Duration, len(bounds))
	for range 2000 {
		p.reset()
		for i := range bounds {
			d, ok := p.failed(time.Time{}, 0)
			if !ok || d > bounds[i]*time.Second || p.attempt() != i+1 {
				t.Fatalf("restart %d (attempt %d): %s, %v; the bound is %d s", i, p.attempt(), d, ok, bounds[i])
			}
			largest[i] = max(largest[i], d)
		}
	}
	for i, l := range largest { // full jitter uses the whole range
		if l < bounds[i]*time.Second*95/100 {
			t.Errorf("restart %d never waited longer than %s", i, l)
		}
	}
	if p.recent != nil {
		t.Error("an unlimited policy remembers failures")
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
	if d, ok := p.failed(now, 0); !ok || d > time.Second {
		t.Errorf("after that: %s, %v; want the base backoff", d, ok)
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
				bounds := []time.Duration{1, 2, 4, 7}
				want = time.Duration(jitter.Int64N(int64(bounds[min(streak, 4)-1]*time.Second) + 1))
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
