package unit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/internal/text/redact"
)

// Registry holds every unit that may have a process, and passes the secrets of these units to the redactor.
type Registry struct {
	redactor *redact.Redactor

	refresh concurrent.SharedRun[struct{}] // one at a time, so that the newest list is set last

	mu   sync.Mutex // guards live
	live map[Runner]struct{}
}

// NewRegistry returns an empty registry.
func NewRegistry(r *redact.Redactor) *Registry {
	return &Registry{redactor: r, live: make(map[Runner]struct{})}
}

// Add registers units that may have processes.
func (r *Registry) Add(units []Runner) {
	r.mu.Lock()
	for _, u := range units {
		r.live[u] = struct{}{}
	}
	r.mu.Unlock()
	r.RefreshSecrets()
}

// Remove removes a unit that has no process any more.
func (r *Registry) Remove(u Runner) {
	r.mu.Lock()
	delete(r.live, u)
	r.mu.Unlock()
	r.RefreshSecrets()
}

// All returns every unit that may have a process, including replaced ones.
func (r *Registry) All() []Runner {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.live))
}

// RefreshSecrets passes the secrets of all units to the redactor.
func (r *Registry) RefreshSecrets() {
	r.refresh.Do(func() struct{} {
		var secrets []string
		for _, u := range r.All() {
			secrets = append(secrets, u.Secrets()...)
		}
		r.redactor.SetSecrets(secrets)
		return struct{}{}
	})
}

// maxNamed bounds the units that an error of [Registry.StopAll] names.
const maxNamed = 8

// StopAll stops all units in parallel, and gives calls in flight the time drain. The error names the first 8
// units that did not stop, and counts the others.
func (r *Registry) StopAll(ctx context.Context, drain time.Duration) error {
	var wg sync.WaitGroup
	live := r.All()
	slices.SortFunc(live, func(a, b Runner) int { return cmp.Compare(a.Base().ID(), b.Base().ID()) })
	errs := make([]error, len(live))
	for n, u := range live {
		wg.Go(func() {
			if err := u.Stop(ctx, drain); err != nil {
				errs[n] = fmt.Errorf("%s: %w", u.Base().ID(), err)
			}
		})
	}
	wg.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if more := len(errs) - maxNamed; more > 0 {
		errs = append(errs[:maxNamed], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// KillAll kills every process of every unit at once.
func (r *Registry) KillAll() {
	for _, u := range r.All() {
		u.Kill()
	}
}

// startsAtOnce bounds the parallel starts. A start mostly waits for a child, and a hanging child must not delay
// the others for long.
var startsAtOnce = 16 * runtime.GOMAXPROCS(0)

// StartEach starts the units of list, a bounded number at a time, and yields each as it has started or failed. It
// returns when all have.
func StartEach(ctx context.Context, list []Runner) iter.Seq2[Runner, error] {
	return each(list, func(u Runner) error { return u.Start(ctx) })
}

// RestartEach is StartEach for units that are restarted.
func RestartEach(ctx context.Context, list []Runner) iter.Seq2[Runner, error] {
	return each(list, func(u Runner) error { return u.Restart(ctx) })
}

func each(list []Runner, do func(Runner) error) iter.Seq2[Runner, error] {
	type outcome struct {
		u   Runner
		err error
	}
	return func(yield func(Runner, error) bool) {
		var wg sync.WaitGroup
		slots, outcomes := make(chan struct{}, startsAtOnce), make(chan outcome, len(list))
		for _, u := range list {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				outcomes <- outcome{u, do(u)}
			})
		}
		go func() { wg.Wait(); close(outcomes) }()
		more := true
		for o := range outcomes {
			more = more && yield(o.u, o.err)
		}
	}
}

// stopMargin is the time that a stop may take beyond drain_timeout, shutdown_grace and kill_grace before the processes
// are killed.
const stopMargin = 5 * time.Second

// Drain stops u once the calls that may use it have left, at the latest after its drain_timeout, and kills it if it
// does not stop. past has a channel for each snapshot with such calls, closed when they have left it. Drain returns
// false if closing ended first: the unit may then still have processes.
func Drain(closing context.Context, u Runner, past []<-chan struct{}) (stopped bool) {
	base := u.Base()
	drained, cancel := context.WithTimeout(closing, base.Spec.Options.DrainTimeout)
	defer cancel()
	for _, left := range past {
		select {
		case <-left:
		case <-drained.Done():
		}
	}
	deadline, _ := drained.Deadline()
	drain := max(0, time.Until(deadline))
	o := &base.Spec.Options
	ctx, cancel := context.WithTimeout(closing, drain+o.ShutdownGrace+o.KillGrace+stopMargin)
	defer cancel()
	if err := u.Stop(ctx, drain); err != nil {
		if closing.Err() != nil {
			return false
		}
		base.Log.Error("did not stop, and is killed", "error", err)
		u.Kill()
	}
	return true
}
