package runtime

import (
	"cmp"
	"context"
	"time"

	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/wire/ndjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// StdioRuntime runs an extension as one child process that reads frames on stdin and writes frames on stdout.
type StdioRuntime struct{ run }

var _ Instance = (*StdioRuntime)(nil)

// local is the endpoint of a child process.
type local struct{ *process.Process }

var _ endpoint = local{}

// lastWords is the maximum age of the stderr lines that are reported with the end of a ready process.
const lastWords = 10 * time.Second

func (l local) evidence(ready bool) *protocol.Evidence {
	e := EvidenceOf(l.Process)
	if ready {
		e.Stderr = l.TailSince(time.Now().Add(-lastWords))
	}
	return e
}

func (l local) exit() string { return l.Exit().String() }

// idleProcess is a running process without a connection.
type idleProcess struct {
	proc     *process.Process
	startLog *startLog
	taken    chan struct{}          // closed when a Standby has handed over the process
	still    func() *protocol.Error // the second part of its permit; nil for a process started by Serve
}

// startProcess starts a process. holds makes its startLog hold what it writes to stderr.
func (s *Spec) startProcess(ctx context.Context, holds bool) (*idleProcess, *protocol.Error) {
	s, fault := s.resolved(ctx)
	if fault != nil {
		return nil, fault
	}
	argv, err := s.CommandLine()
	if err != nil {
		return nil, SpawnFailed(err)
	}
	p := &idleProcess{startLog: &startLog{log: s.Logger, holding: holds}, taken: make(chan struct{})}
	p.proc, err = process.Start(ctx, process.Spec{
		Path:          argv[0],
		Args:          argv[1:],
		Dir:           s.WorkDir(),
		Env:           s.Env,
		KillGrace:     cmp.Or(s.Options.KillGrace, -1),
		Limits:        limited.Limits(s.Options.Limits),
		Containment:   s.Containment,
		Isolate:       s.Options.Isolate == manifest.IsolatePID,
		NewPrivileges: s.NewPrivileges,
		Sandbox:       s.Sandbox,
		StderrLine: func(l process.Line) {
			s.Sandbox.Hear(l.Text)
			p.startLog.line(l)
		},
	})
	if err != nil {
		return nil, SpawnFailed(err)
	}
	return p, nil
}

// permitted calls Permit. still is never nil.
func (s *Spec) permitted(ctx context.Context) (still func() *protocol.Error, fault *protocol.Error) {
	still = func() *protocol.Error { return nil }
	if s.Permit == nil {
		return still, nil
	}
	look, err := s.Permit(ctx)
	if err != nil {
		return nil, notPermitted(err)
	}
	if look != nil {
		still = func() *protocol.Error { return notPermitted(look()) }
	}
	return still, nil
}

// notPermitted converts an error of Permit; nil stays nil.
func notPermitted(err error) *protocol.Error {
	if err == nil {
		return nil
	}
	fault := protocol.Errorf(cmp.Or(protocol.KindOf(err), protocol.Untrusted), "%s", protocol.Reason(err))
	fault.Next = protocol.NextOf(err)
	return fault
}

// noisyHandshake reports whether servers may complain on stderr about handshake requests that they do not know.
func (s *Spec) noisyHandshake() bool {
	d, err := newDialect(s)
	return err == nil && d.traits().noisyHandshake
}

// spawn takes the process of the Standby or starts one. Nothing is read before run.
func spawn(ctx context.Context, s *Spec, d dialect) (*child, *protocol.Error) {
	p, noisy := s.Standby.take(), s.noisyHandshake()
	if p != nil {
		if fault := p.still(); fault != nil { // the program may have changed since the start
			s.Logger.Warn("the standby process is replaced", "reason", protocol.Reason(fault), "pid", p.proc.PID())
			p.end(ctx, s.Options.ShutdownGrace)
			p = nil
		}
	}
	if p == nil {
		var fault *protocol.Error
		if p, fault = s.startProcess(ctx, noisy); fault != nil {
			return nil, fault
		}
	} else if noisy {
		p.startLog.hold()
	}
	c := newChild(s, d, local{p.proc})
	c.startLog = p.startLog
	if c.traits.oneCall {
		c.noise.onNoise = func(line []byte) { c.slot.failCall(notAnswer(line)) }
	}
	l := &processTransport{noise: c.noise, seen: c.observers()}
	l.Transport = ndjson.New(p.proc.Stdout, p.proc.Stdin, ndjson.Options{
		MaxLineBytes: s.Options.MaxLineBytes,
		Noise:        l.onNoise,
		WriteTimeout: s.stallTimeout(),
	})
	c.connect(l)
	return c, nil
}
