package storm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/protocol"
)

// hostilities are the modes of a hostile extension.
var hostilities = []string{"stdout-flood", "stderr-flood", "crash-loop", "hang", "deaf", "huge-lines",
	"noise", "late", "duplicates", "forks", "spin", "memory"}

// neighbours are the good extensions beside a hostile one.
const neighbours = 19

// TestHostileNeighbour runs a hostile extension beside 19 good ones. Their calls must not fail, and their p99 may be
// 10 ms or twice that of quiet times. The hostile one is called all the time, by more callers than it has room for.
func TestHostileNeighbour(t *testing.T) {
	program := subject(t)
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	for i := range neighbours {
		f.Add(fmt.Sprintf("good%02d", i), runs(program))
	}
	s := &suburb{t: t, Folder: f, h: f.Open(exthost.Options{}), program: program}
	for _, how := range hostilities {
		t.Run(how, func(t *testing.T) {
			s.t = t
			stormtest.Claim(t, "p99 of the neighbours of "+how+", of what is allowed", 1.0, func() (float64, string) {
				idle, beside := s.besides(how)
				allowed := max(2*idle.Quantile(0.99), 10*time.Millisecond)
				return rounded(float64(beside.Quantile(0.99)) / float64(allowed)), fmt.Sprintf("%v; idle: %v", beside,
					idle)
			})
		})
	}
}

// suburb is a host of good extensions, which gets a hostile one at times.
type suburb struct {
	*hosttest.Folder
	t       *testing.T
	h       *exthost.Host
	program string
}

// besides measures the calls of the good extensions alone, and beside a hostile one that is called. It alternates
// between the two, so that other load of the machine affects both.
func (s *suburb) besides(how string) (idle, beside stormtest.Durations) {
	for range stormtest.Sized(1, 4) {
		d := time.Duration(stormtest.Sized(100, 400)) * time.Millisecond
		idle = append(idle, callAll(s.t, s.h, d)...)
		leave := s.settle(how)
		beside = append(beside, callAll(s.t, s.h, d)...)
		leave()
	}
	return idle, beside
}

// settle adds a hostile extension, and returns once it has shown to be hostile. leave removes it.
func (s *suburb) settle(how string) (leave func()) {
	s.Add("bad", runs("nice", "-n", "10", s.program, how)+
		"[runtime]\ncall_timeout = \"200ms\"\nshutdown_grace = \"100ms\"\nmax_in_flight = 8\n"+tireless)
	s.reload()
	before := hosttest.StatusOf(s.t, s.h, "bad")
	stop := provoke(s.h)
	hosttest.Eventually(s.t, how+" is hostile", func() bool {
		bad := hosttest.StatusOf(s.t, s.h, "bad")
		answers := how == "duplicates" || how == "huge-lines"
		return bad.Restarts > before.Restarts || bad.Errors > before.Errors || answers && bad.Calls > before.Calls
	})
	return func() {
		stop()
		if err := os.RemoveAll(filepath.Join(s.Dir, "bad")); err != nil {
			s.t.Error(err)
		}
		s.reload()
	}
}

func (s *suburb) reload() {
	s.t.Helper()
	if _, err := s.h.Admin().Reload(hosttest.Deadline(s.t)); err != nil {
		s.t.Fatal(err)
	}
}

// callAll calls all neighbours in parallel for the time d, every 10 ms, and returns the durations of the calls. Every
// call must succeed.
func callAll(t *testing.T, h *exthost.Host, d time.Duration) stormtest.Durations {
	took := make([]stormtest.Durations, neighbours)
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for i := range neighbours {
		wg.Go(func() {
			beat := time.NewTicker(10 * time.Millisecond)
			defer beat.Stop()
			for ; time.Now().Before(end); <-beat.C {
				began := time.Now()
				text := fmt.Sprint("hello ", i)
				result, err := h.Call(hosttest.Deadline(t), fmt.Sprintf("ext_good%02d_echo", i),
					map[string]any{"text": text})
				took[i] = append(took[i], time.Since(began))
				if err != nil || result.Text() != text {
					t.Errorf("good%02d: %s, %v", i, result, err)
					return
				}
			}
		})
	}
	wg.Wait()
	var all stormtest.Durations
	for _, d := range took {
		all = append(all, d...)
	}
	return all
}

// provoke calls the hostile extension until stop is called.
func provoke(h *exthost.Host) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	much := json.RawMessage(`{"text":"` + strings.Repeat("x", 16<<10) + `"}`) // a pipe holds 64 KiB
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			beat := time.NewTicker(10 * time.Millisecond)
			defer beat.Stop()
			for ctx.Err() == nil {
				_, _ = h.Call(ctx, "ext_bad_echo", much)
				select {
				case <-beat.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// Calls that never end delay no other call of the same extension, up to max_in_flight. When the queue is full too, a
// call is refused at once.
func TestSlowToolDelaysNoOther(t *testing.T) {
	program := subject(t)
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("x",
		runs(program)+"[runtime]\nmax_in_flight = 33\nmax_queue = 8\n").Open(exthost.Options{})
	echo := func() (took stormtest.Durations) {
		for range stormtest.Sized(100, 2000) {
			began := time.Now()
			if _, err := h.Call(hosttest.Deadline(t), "ext_x_echo", map[string]any{"text": "x"}); err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		return took
	}
	idle := echo()
	ctx, cancel := context.WithCancel(context.Background())
	var slow sync.WaitGroup
	defer func() { cancel(); slow.Wait() }()
	occupy := func(n, inFlight, queued int) {
		for range n {
			slow.Go(func() { _, _ = h.Call(ctx, "ext_x_wait", nil) })
		}
		hosttest.Eventually(t, "the slow calls are under way", func() bool {
			i := hosttest.StatusOf(t, h, "x").Instances[0]
			return i.InFlight == inFlight && i.Queued == queued
		})
	}
	occupy(32, 32, 0)
	stormtest.Claim(t, "p99 beside 32 slow calls", max(2*idle.Quantile(0.99), 10*time.Millisecond),
		func() (time.Duration, string) {
			took := echo()
			return took.Quantile(0.99), fmt.Sprintf("%v; idle: %v", took, idle)
		})
	occupy(9, 33, 8)
	if _, err := h.Call(hosttest.Deadline(t), "ext_x_echo",
		map[string]any{"text": "x"}); protocol.KindOf(err) != protocol.Overloaded {
		t.Errorf("beyond the queue: %v", err)
	}
}
