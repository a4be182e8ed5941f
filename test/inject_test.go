package test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/recording/faults"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// injected opens a host whose calls fail as rules state. An extension that was killed is there again
// at once, as often as that happens.
func injected(t *testing.T, runtime string, rules ...faults.Rule) *exthost.Host {
	cfg := hosttest.NewFolder(t).Add("x",
		hosttest.Child("sdk", "[runtime]\n"+runtime+"[runtime.restart]\nmax_attempts = -1\nbase_backoff = 0\n"))
	c := cfg.Config()
	c.Inject = rules
	return cfg.OpenWith(c, exthost.Options{})
}

// Each fault is the error, or the result, that the real thing has.
func TestInjectedFaults(t *testing.T) {
	processtest.Leaks(t)
	call := func(h *exthost.Host, ctx context.Context) (*hosttest.Recorder, string, error) {
		client := hosttest.NewRecorder()
		result, err := h.Do(ctx,
			&protocol.Call{
				Session: &protocol.Session{ID: "a", Version: protocol.MCP20251125},
				Method:  protocol.MethodToolsCall,
				Params:  []byte(`{"name":"ext_x_greet","arguments":{"name":"Ada"}}`),
				Client:  client,
			})
		return client, string(result), err
	}
	for _, tt := range []struct {
		rule faults.Rule
		want protocol.Kind
	}{
		{faults.Rule{Crash: 1}, protocol.ChildExited}, {faults.Rule{Hang: 1}, protocol.CallTimeout},
		{faults.Rule{Garbage: 1}, protocol.InvalidResponse},
		{faults.Rule{Slow: manifest.Duration(1 << 40)}, protocol.CallTimeout},
	} {
		tt.rule.Tool = "ext_x_*"
		_, _, err := call(injected(t, "call_timeout = 1000\n", tt.rule), hosttest.Deadline(t))
		e, _ := err.(*protocol.Error)
		if e == nil || e.Kind != tt.want || e.Outcome != "unknown" ||
			!strings.Contains(e.Error(), "injected by inject[0] of the configuration") {
			t.Errorf("%s: %v", &tt.rule, err)
		}
	}
	h := injected(t, "", faults.Rule{Tool: "*_greet", Huge: 1})
	if _, result, err := call(h, hosttest.Deadline(t)); err != nil || len(result) < 4<<20 ||
		!strings.Contains(result, "Hello, Ada") {
		t.Errorf("huge: %d bytes, %v", len(result), err)
	}
	client, result, err := call(injected(t, "", faults.Rule{Tool: "*_greet", Noise: 1}), hosttest.Deadline(t))
	if told := client.Told(); err != nil || len(told) != 20 || !strings.HasPrefix(told[0], protocol.MethodMessage) ||
		!strings.Contains(result, "Hello, Ada") {
		t.Errorf("noise: %q, %v", told, err)
	}
	ctx, cancel := context.WithCancel(hosttest.Deadline(t))
	cancel()
	if _, _, err := call(injected(t, "", faults.Rule{Tool: "*", Hang: 1}),
		ctx); protocol.KindOf(err) != protocol.Canceled {
		t.Errorf("a call that nobody waits for: %v", err)
	}
	if got := warnings(h, "faults_injected"); len(got) != 1 ||
		!strings.Contains(got[0], "calls of *_greet fail on purpose: huge 1") {
		t.Errorf("the status says %q", got)
	}
}

// One seed has the same 1,000 calls fail in the same ways, whatever other tools are called between,
// and about as many as stated.
func TestInjectedAlike(t *testing.T) {
	processtest.Leaks(t)
	run := func(seed int, between bool) (outcomes []string) {
		h := injected(t, "", faults.Rule{Tool: "ext_x_greet", Crash: 0.01, Garbage: 0.05, Huge: 0.005, Seed: seed})
		for range 1000 {
			result, err := h.Call(hosttest.Deadline(t), "ext_x_greet", map[string]string{"name": "Ada"})
			outcomes = append(outcomes, fmt.Sprintf("%s %d", protocol.KindOf(err), len(result)))
			if between {
				_, _ = h.Call(hosttest.Deadline(t), "ext_x_echo", nil)
			}
		}
		return outcomes
	}
	one, again, other := run(7, false), run(7, true), run(8, false)
	if !slices.Equal(one, again) {
		t.Error("the same seed has other calls fail")
	}
	if slices.Equal(one, other) {
		t.Error("another seed has the same calls fail")
	}
	count := map[string]int{}
	for _, o := range one {
		kind, _, _ := strings.Cut(o, " ")
		count[kind]++
	}
	if n := count[string(protocol.InvalidResponse)]; n < 20 || n > 90 || count[string(protocol.ChildExited)] < 2 {
		t.Errorf("outcomes %v", count)
	}
}

// A call that hangs is one that its instance has: it ends with that, when the host is closed or when
// another call has killed the process.
func TestInjectedHangEnds(t *testing.T) {
	processtest.Leaks(t)
	for name, end := range map[protocol.Kind]func(h *exthost.Host){
		protocol.ShuttingDown: func(h *exthost.Host) { _ = h.Close() },
		protocol.ChildExited:  func(h *exthost.Host) { _, _ = h.Call(hosttest.Deadline(t), "ext_x_echo", nil) },
	} {
		h := injected(t, "call_timeout = 0\n", faults.Rule{Tool: "*_greet", Hang: 1},
			faults.Rule{Tool: "*_echo", Crash: 1})
		ended := make(chan error, 1)
		go func() { ended <- hosttest.Greet(t, h, "Ada") }()
		hosttest.Eventually(t, "the call hangs", func() bool {
			i := hosttest.StatusOf(t, h, "x").Instances
			return len(i) > 0 && i[0].InFlight > 0
		})
		end(h)
		if err := <-ended; protocol.KindOf(err) != name || !strings.Contains(fmt.Sprint(err), "injected by inject[0]") {
			t.Errorf("want %s: %v", name, err)
		}
	}
}

// Calls that meet a process which another one has killed, and are given to the next, count once: what
// fails later does not depend on them.
func TestInjectedOnceACall(t *testing.T) {
	processtest.Leaks(t)
	run := func(together int) (later []protocol.Kind) {
		h := injected(t, "", faults.Rule{Tool: "*_greet", Crash: 0.1, Seed: 3})
		var all sync.WaitGroup
		for range together {
			all.Go(func() {
				for range 300 / together {
					_ = hosttest.Greet(t, h, "Ada")
				}
			})
		}
		all.Wait()
		for range 40 {
			later = append(later, protocol.KindOf(hosttest.Greet(t, h, "Ada")))
		}
		return later
	}
	if diff := cmp.Diff(run(1), run(3)); diff != "" {
		t.Errorf("after calls that were made one by one (-) and together (+):\n%s", diff)
	}
}
