package storm

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/status"
)

// scene is a host with one extension, x.
type scene struct {
	t     *testing.T
	h     *exthost.Host
	tasks sync.WaitGroup
}

func (s *scene) status() status.Extension { return hosttest.StatusOf(s.t, s.h, "x") }

// await waits until x is in a state.
func (s *scene) await(state string) {
	s.t.Helper()
	hosttest.Eventually(s.t, "it is "+state, func() bool { return s.status().State == state })
}

// kill waits until x is ready and kills it.
func (s *scene) kill() {
	s.t.Helper()
	s.await("ready")
	hosttest.Eventually(s.t, "it is killed", func() bool { return kill(hosttest.PidOf(s.t, s.h, "x")) })
}

// calls begins n calls that are never answered, and waits until they are in flight. It ignores how they end.
func (s *scene) calls(n int) {
	s.t.Helper()
	for range n {
		s.tasks.Go(func() { _, _ = s.h.Call(context.Background(), "ext_x_wait", nil) })
	}
	hosttest.Eventually(s.t, "the calls are under way", func() bool {
		x := s.status()
		return len(x.Instances) > 0 && x.Instances[0].InFlight == n
	})
}

// situation is a state of an extension, or a misbehaviour of its child, in which its host is closed.
type situation struct {
	name    string
	willing bool   // its child ends when it is asked to, and no call waits for an answer
	how     string // the mode of the subject; "": well-behaved
	script  string // of a scripted child in place of the subject
	runtime string // further keys of [runtime], after shutdown_grace
	bring   func(s *scene)
}

var situations = []situation{
	{
		name:    "idle",
		willing: true,
		runtime: "instances = \"per_session\"\nidle_timeout = \"1ms\"\n",
		bring:   func(s *scene) { s.await("idle") },
	},
	{name: "spawning", willing: true, how: "mute", bring: func(s *scene) { s.await("spawning") }},
	{name: "spawning and deaf", script: "ignore; hang", bring: func(s *scene) { s.await("spawning") }},
	{name: "ready", willing: true, bring: ready},
	{name: "calls in flight", bring: func(s *scene) { s.await("ready"); s.calls(3) }},
	{
		name:    "failed",
		willing: true,
		runtime: "restart.max_attempts = 0\n",
		bring:   func(s *scene) { s.kill(); s.await("failed") },
	},
	{name: "restarting", willing: true, runtime: "restart.base_backoff = \"16s\"\n", bring: func(s *scene) {
		s.kill() // the first restart is at once, and the second after up to 16 s
		hosttest.Eventually(s.t, "it is back", func() bool { return s.status().Restarts == 1 })
		s.kill()
		s.await("restarting")
	}},
	{name: "draining", bring: func(s *scene) {
		s.await("ready")
		s.calls(1)
		s.tasks.Go(func() { _ = s.h.Admin().Restart(context.Background(), "x") })
		s.await("draining")
	}},
	{name: "hung", willing: true, how: "hang", bring: ready},
	{name: "hung with calls", how: "hang", bring: func(s *scene) { s.await("ready"); s.calls(3) }},
	{name: "never reads", how: "deaf", bring: ready},
	{name: "ignores SIGTERM", how: "stubborn", bring: ready},
	{name: "floods stdout", how: "stdout-flood", bring: ready},
	{name: "floods stderr", how: "stderr-flood", bring: ready},
	{name: "forks", how: "forks", bring: ready},
}

func ready(s *scene) { s.await("ready") }

// end closes a host in this situation and returns how long that took.
func (x situation) end(t *testing.T, program string) time.Duration {
	var args []string
	if x.how != "" {
		args = []string{x.how}
	}
	transport := runs(program, args...)
	if x.script != "" {
		transport = hosttest.Child(x.script, "")
	}
	f := hosttest.NewFolder(t).Add("x", transport+"[runtime]\nshutdown_grace = \"200ms\"\n"+x.runtime)
	s := &scene{t: t, h: f.Open(exthost.Options{Mode: exthost.Mode{Background: true}})}
	x.bring(s)
	began := time.Now()
	if err := s.h.Close(); err != nil {
		t.Errorf("%s: %v", x.name, err)
	}
	took := time.Since(began)
	s.tasks.Wait()
	return took
}

// ends closes as many hosts as rounds says, atOnce of them in parallel, and returns how long each took.
func (x situation) ends(t *testing.T, program string, rounds, atOnce int) stormtest.Durations {
	took := make(stormtest.Durations, rounds)
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range took {
		slots <- struct{}{}
		wg.Go(func() {
			took[i] = x.end(t, program)
			<-slots
		})
	}
	wg.Wait()
	return took
}

// TestShutdown closes hosts in every state of an extension. Willing children cost no wait. The others get 1 s for
// calls in flight, shutdown_grace, and 1 s after SIGTERM: a limit of 2.5 s beyond the grace leaves 0.5 s of slack.
// Leaks checks that no process was started afterwards.
func TestShutdown(t *testing.T) {
	const grace = 200 * time.Millisecond
	program := subject(t)
	processtest.Leaks(t)
	rounds := stormtest.Sized(1, (500+len(situations)-1)/len(situations))
	for _, x := range situations {
		t.Run(x.name, func(t *testing.T) {
			if !stormtest.Full {
				t.Parallel()
			}
			limit, atOnce := grace+2500*time.Millisecond, 8
			if x.willing {
				limit, atOnce = 100*time.Millisecond, 1
			}
			stormtest.Claim(t, x.name+", longest shutdown", limit, func() (time.Duration, string) {
				took := x.ends(t, program, rounds, atOnce)
				return took.Quantile(1), took.String()
			})
		})
	}
}

// Close keeps its deadline with children that ignore every request to end and have a shutdown_grace of an hour.
func TestCloseKeepsItsDeadline(t *testing.T) {
	if !stormtest.Full {
		t.Skip("takes 5 s; the test of this name in the root package has one such child")
	}
	program := subject(t)
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	for i := range 8 {
		f.Add(fmt.Sprintf("x%d", i), runs(program, "stubborn")+"[runtime]\nshutdown_grace = \"1h\"\n")
	}
	stormtest.Claim(t, "longest shutdown", 5*time.Second, func() (time.Duration, string) {
		h := f.Open(exthost.Options{})
		var calls sync.WaitGroup
		for i := range 8 {
			calls.Go(func() { _, _ = h.Call(context.Background(), fmt.Sprintf("ext_x%d_wait", i), nil) })
		}
		hosttest.Eventually(t, "the calls are under way", func() bool {
			return !slices.ContainsFunc(h.Status().Extensions,
				func(x status.Extension) bool { return x.Instances[0].InFlight == 0 })
		})
		began := time.Now()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		took := time.Since(began)
		calls.Wait()
		return took, "8 extensions with calls in flight"
	})
}
