package runtime

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/exthost/exthost/internal/jsonrpc"
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

// spawn starts the process.
func spawn(ctx context.Context, s *Spec, d dialect) (*child, *protocol.Error) {
	argv, err := commandLine(s)
	if err != nil {
		return nil, spawnFailed(err)
	}
	var settled atomic.Pointer[atomic.Bool] // of the handshake; nil while there is no child
	probed := d.traits().probed
	proc, err := process.Start(ctx, process.Spec{
		Path: argv[0], Args: argv[1:], Dir: workDir(s), Env: s.Env,
		Limits: process.Limits(s.Options.Limits), Containment: s.Containment, Isolate: s.Options.Isolate == manifest.IsolatePID,
		StderrLine: func(l process.Line) {
			if is := settled.Load(); probed && (is == nil || !is.Load()) {
				l.Level = min(l.Level, slog.LevelDebug)
			}
			logStderr(s.Logger, l)
		},
	})
	if err != nil {
		return nil, spawnFailed(err)
	}
	c := newChild(s, d, local{proc})
	settled.Store(&c.noise.settled)
	if c.traits.single {
		c.noise.heard = c.slot.spoil
	}
	c.connect(&listener{noise: c.noise, Line: jsonrpc.NewLineTransport(proc.Stdout, proc.Stdin, jsonrpc.LineOptions{
		MaxLineBytes: s.Options.MaxLineBytes,
		Noise:        c.noise.line,
		WriteTimeout: s.stallTimeout(),
	})})
	return c, nil
}
