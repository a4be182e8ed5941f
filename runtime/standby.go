package runtime

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/concurrent"
)

// Standby keeps one started process ready for the next instance whose Spec has this Standby. Its methods are safe for
// concurrent use; a nil Standby keeps no process.
type Standby struct {
	spec Spec

	mu      sync.Mutex
	idle    *idleProcess // nil if no process is ready
	filling bool

	tasks concurrent.Gate // Fill and watch calls; closed by Stop
}

// NewStandby returns a Standby for instances of s, whose transport must be stdio. Only Fill starts a process.
func NewStandby(s Spec) *Standby {
	s.Logger = cmp.Or(s.Logger, slog.New(slog.DiscardHandler))
	return &Standby{spec: s}
}

// Fill starts the process, unless one is ready or being started. The error is a *protocol.Error: the one of
// Spec.Permit, or of kind spawn_failed.
func (b *Standby) Fill(ctx context.Context) error {
	if b == nil || !b.begin() {
		return nil
	}
	defer b.tasks.Leave()
	var p *idleProcess
	still, fault := b.spec.permitted(ctx)
	if fault == nil {
		p, fault = b.spec.startProcess(ctx, false)
	}
	if fault == nil {
		p.still = still
	}
	b.mu.Lock()
	b.filling = false
	kept := fault == nil && b.tasks.Go(func() { b.watch(p) })
	if kept {
		b.idle = p
	}
	b.mu.Unlock()
	if fault != nil {
		return b.spec.withID(fault)
	}
	if !kept {
		p.end(ctx, 0)
	}
	return nil
}

// begin reports whether the caller is to fill the Standby, and marks it as filling.
func (b *Standby) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.filling || b.idle != nil || !b.tasks.Enter() {
		return false
	}
	b.filling = true
	return true
}

// watch handles the end of a process that was never taken. It starts no replacement, which would probably end too; the
// next Fill does.
func (b *Standby) watch(p *idleProcess) {
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
		b.spec.Logger.Warn("the standby process ended before a client connected", "exit", p.proc.Exit().String(),
			"pid", p.proc.PID())
	}
}

// take returns the process, which then belongs to the caller; nil if none is ready.
func (b *Standby) take() *idleProcess {
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

// Drop stops the process, so that the next one starts under the current conditions.
func (b *Standby) Drop(ctx context.Context) {
	if p := b.take(); p != nil {
		p.end(ctx, b.spec.Options.ShutdownGrace)
	}
}

// PID returns the process id; 0 if there is no process.
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

// Stop stops the process in the same steps as an instance, and closes the Standby for good. It waits for the end and
// may be called again.
func (b *Standby) Stop(ctx context.Context) {
	if b == nil {
		return
	}
	ended := b.tasks.Close()
	if p := b.take(); p != nil {
		p.end(ctx, b.spec.Options.ShutdownGrace)
	}
	<-ended
}

// Kill kills the process without waiting.
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

// end stops a process that was never taken.
func (p *idleProcess) end(ctx context.Context, grace time.Duration) {
	_ = p.proc.Stop(ctx, grace) // nothing can be done about a process that survives SIGKILL
	p.proc.Stdout.Close()
}
