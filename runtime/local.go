package runtime

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/exthost/exthost/internal/jsonrpc/ndjson"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// StdioRuntime runs an extension as one child process that answers requests on
// its stdin with frames on its stdout.
type StdioRuntime struct{ run }

var _ Instance = (*StdioRuntime)(nil)

// local is the other end of a conversation that is a process of ours.
type local struct{ *process.Process }

var _ body = local{}

func (l local) evidence() *protocol.Evidence { return evidenceOf(l.Process) }
func (l local) exit() string                 { return l.Exit().String() }

// spawned is a process that nobody has spoken to.
type spawned struct {
	proc    *process.Process
	settled atomic.Pointer[atomic.Bool] // of the handshake; nil before there is one
	taken   chan struct{}               // closed when a Standby has handed it over
}

// startSpawned starts the process of s.
func startSpawned(ctx context.Context, s *Spec) (*spawned, error) {
	argv, err := CommandLine(s)
	if err != nil {
		return nil, err
	}
	p := &spawned{taken: make(chan struct{})}
	probed := probes(s)
	p.proc, err = process.Start(ctx, process.Spec{
		Path: argv[0], Args: argv[1:], Dir: workDir(s), Env: s.Env,
		Limits: process.Limits(s.Options.Limits), Containment: s.Containment, Isolate: s.Options.Isolate == manifest.IsolatePID,
		StderrLine: func(l process.Line) {
			if is := p.settled.Load(); probed && (is == nil || !is.Load()) {
				l.Level = min(l.Level, slog.LevelDebug)
			}
			logStderr(s.Logger, l)
		},
	})
	return p, err
}

// probes reports whether s is greeted with a question that not all understand.
func probes(s *Spec) bool {
	d, err := newDialect(s)
	return err == nil && d.traits().probed
}

// spawn starts the process, or takes over the one that waits. Nothing is read from
// it before run.
func spawn(ctx context.Context, s *Spec, d dialect) (*child, *protocol.Error) {
	p := s.Standby.take()
	if p == nil {
		var err error
		if p, err = startSpawned(ctx, s); err != nil {
			return nil, spawnFailed(err)
		}
	}
	c := newChild(s, d, local{p.proc})
	p.settled.Store(&c.noise.settled)
	if c.traits.single {
		c.noise.heard = c.slot.spoil
	}
	l := &listener{noise: c.noise, tap: s.Tap, pid: p.proc.PID()}
	l.Transport = ndjson.New(p.proc.Stdout, p.proc.Stdin, ndjson.Options{
		MaxLineBytes: s.Options.MaxLineBytes,
		Noise:        l.heard,
		WriteTimeout: s.stallTimeout(),
	})
	c.connect(l)
	return c, nil
}
