package runtime

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Standby keeps one process started that nobody has spoken to, for the next
// instance of a spec that names it. Its methods may be called by many goroutines;
// a nil Standby is one that keeps none.
type Standby struct {
	spec Spec

	mu      sync.Mutex
	idle    *spawned // nil: there is none
	filling bool
	closed  bool
	tasks   sync.WaitGroup // those that fill and those that watch; none begins once closed
}

// NewStandby returns a Standby for instances of s, whose transport is stdio. It
// starts nothing before Fill.
func NewStandby(s Spec) *Standby {
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	return &Standby{spec: s}
}

// Fill starts the process, unless there is one or another Fill is about to. The
// error is a *protocol.Error of kind spawn_failed.
func (b *Standby) Fill(ctx context.Context) error {
	if b == nil || !b.begin() {
		return nil
	}
	defer b.tasks.Done()
	p, err := startSpawned(ctx, &b.spec)
	b.mu.Lock()
	b.filling = false
	kept := err == nil && !b.closed
	if kept {
		b.idle = p
		b.tasks.Go(func() { b.watch(p) })
	}
	b.mu.Unlock()
	if err != nil {
		return blame(&b.spec, spawnFailed(err))
	}
	if !kept {
		p.end(ctx, 0)
	}
	return nil
}

// begin takes the right to fill.
func (b *Standby) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.filling || b.idle != nil {
		return false
	}
	b.filling = true
	b.tasks.Add(1)
	return true
}

// watch sees the process end before anybody wanted it. It is not replaced before
// the next instance has started: what ends by itself would end again.
func (b *Standby) watch(p *spawned) {
	select {
	case <-p.taken:
		return
	case <-p.proc.Done():
	}
	b.mu.Lock()
	mine := b.idle == p
	if mine {
		b.idle = nil
	}
	b.mu.Unlock()
	if mine {
		p.proc.Stdout.Close()
		b.spec.Logger.Warn("the process kept ready ended before anybody connected", "exit", p.proc.Exit().String(), "pid", p.proc.PID())
	}
}

// take hands the process over; nil when there is none.
func (b *Standby) take() *spawned {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.idle
	if b.idle = nil; p != nil {
		close(p.taken)
	}
	return p
}

// PID returns the process id, 0 when there is no process.
func (b *Standby) PID() int {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.idle == nil {
		return 0
	}
	return b.idle.proc.PID()
}

// Stop ends the process by the ladder of an instance, for good. It waits, and may
// be called again.
func (b *Standby) Stop(ctx context.Context) {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	if p := b.take(); p != nil {
		p.end(ctx, b.spec.Options.ShutdownGrace)
	}
	b.tasks.Wait()
}

// Kill ends the process at once. It does not wait.
func (b *Standby) Kill() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.idle != nil {
		b.idle.proc.Kill()
	}
}

// end stops a process that nobody has spoken to.
func (p *spawned) end(ctx context.Context, grace time.Duration) {
	_ = p.proc.Stop(ctx, grace) // one that cannot be killed is beyond help
	p.proc.Stdout.Close()
}
