package grpcpolicy

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/grpcpolicy/pluginv1"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/protocol"
)

const (
	// farewellTimeout bounds the Shutdown call. Plugins write down what they
	// hold while it lasts.
	farewellTimeout = 2 * time.Second
	// exitGrace is how long before the end of the process the end of its
	// connection may come and still be the same event.
	exitGrace = 500 * time.Millisecond
	// stopTimeout is how long a killed process may take to be gone.
	stopTimeout = 5 * time.Second
)

// Options say what a [Service] runs.
type Options struct {
	// Spec is the policy, normalized and valid. Its cwd is the working directory,
	// and where a command with a slash is found; "" is the host's own.
	Spec governance.Spec
	// Env is the complete environment of the process, as [process.Environ] returns
	// it; Spec.Env is expected to be in it. The four variables of the contract are
	// added, in place of what Env may say of them.
	Env []string
	// Logger gets what the process writes to stdout and stderr, line by line; nil
	// is nobody.
	Logger *slog.Logger
	// Containment holds what the process starts; nil holds its group.
	Containment *process.Containment
}

// Service is one run of a policy's process; it is used once. Its methods may be
// called from any goroutine.
type Service struct {
	o    Options
	proc atomic.Pointer[process.Process] // nil before it was started
	live atomic.Pointer[live]            // nil before it is ready, and when that is over
	info atomic.Pointer[Info]
}

// live is a plugin that can be asked.
type live struct {
	client pluginv1.PluginServiceClient
	conn   *grpc.ClientConn
}

// Info is what is known about a run.
type Info struct {
	PID       int
	StartedAt time.Time
	Handshake time.Duration            // from the start to ready; 0 before
	Metadata  *pluginv1.PluginMetadata // as reported; nil before it was
	Stderr    []string                 // the last lines it wrote, not redacted
}

var _ governance.Policy = (*Service)(nil)

// New returns a service that has not been started.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{o: o}
}

// Serve runs the process in the calling goroutine until it ends, and calls ready
// once it can be asked. When ctx ends it says Shutdown, stops the process and
// returns nil. Any other return is a *protocol.Error with what the process left
// behind: SpawnFailed, HandshakeTimeout, HandshakeInvalid, ChildExited, or
// StdoutClosed when it gave up its socket and lived on.
func (s *Service) Serve(ctx context.Context, ready func()) error {
	sock, err := newSocket()
	if err != nil {
		return protocol.Errorf(protocol.SpawnFailed, "no place for its socket: %w", err)
	}
	defer sock.remove()
	began := time.Now()
	p, err := s.spawn(ctx, sock.path)
	if err != nil {
		return err
	}
	fault := s.run(ctx, p, sock, began, ready)
	if fault == nil {
		return nil
	}
	fault.Evidence = evidenceOf(p)
	return fault
}

// run serves a started process to its end and returns why that came, nil when ctx
// did it.
func (s *Service) run(ctx context.Context, p *process.Process, sock *socket, began time.Time, ready func()) *protocol.Error {
	alive, end := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() {
		select {
		case <-p.Done():
			end()
		case <-alive.Done():
		}
	})
	info := Info{PID: p.PID(), StartedAt: began}
	s.info.Store(&info)
	l, fault := s.shake(alive, sock, info)
	if fault == nil {
		s.live.Store(l)
		ready()
		fault = attend(alive, l.conn)
		s.live.Store(nil)
	}
	end()
	if ctx.Err() != nil {
		s.farewell(ctx, l)
		fault = nil
	} else {
		fault = s.autopsy(p, fault)
	}
	if l != nil {
		l.conn.Close() // ends the calls that are still waiting
	}
	s.bury(p)
	tasks.Wait()
	return fault
}

// attend returns when ctx ends, or why the connection is over. A plugin may close
// a connection for a fresh one, as servers with an age limit do.
func attend(ctx context.Context, conn *grpc.ClientConn) *protocol.Error {
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Idle:
			conn.Connect()
		case connectivity.TransientFailure, connectivity.Shutdown:
			return protocol.Errorf(protocol.StdoutClosed, "it gave up its socket but went on running, and was killed")
		}
		if !conn.WaitForStateChange(ctx, state) {
			return nil
		}
	}
}

// farewell says Shutdown and asks the process to go, which takes it as long as it
// likes within the bounds.
func (s *Service) farewell(ctx context.Context, l *live) {
	ctx = context.WithoutCancel(ctx)
	if l != nil {
		saying, cancel := context.WithTimeout(ctx, farewellTimeout)
		_, _ = l.client.Shutdown(saying, &emptypb.Empty{}) // SIGTERM says the same
		cancel()
		l.conn.Close() // a plugin that ends gracefully waits for its calls
	}
	// No plugin waits for the end of its stdin, so there is none to wait for.
	if err := s.proc.Load().Stop(ctx, 0); err != nil {
		s.o.Logger.Error("policy does not die", "error", err)
	}
}

// autopsy corrects fault, which may be nil, when the process has ended or is
// about to: the end of its socket is mostly the first sign of that.
func (s *Service) autopsy(p *process.Process, fault *protocol.Error) *protocol.Error {
	if fault != nil && !errors.Is(fault, errSevered) && fault.Kind != protocol.StdoutClosed {
		return fault
	}
	select {
	case <-p.Done():
	case <-time.After(exitGrace):
		return fault
	}
	when := ""
	if info := s.info.Load(); info.Handshake == 0 {
		when = " during the handshake"
	}
	return protocol.Errorf(protocol.ChildExited, "the process ended%s: %v", when, p.Exit())
}

func (s *Service) bury(p *process.Process) {
	p.Kill()
	select {
	case <-p.Done():
	case <-time.After(stopTimeout):
		s.o.Logger.Error("policy does not die", "pid", p.PID())
	}
}

// Kill ends the process, if there is one, at once. It does not wait.
func (s *Service) Kill() {
	if p := s.proc.Load(); p != nil {
		p.Kill()
	}
}

// Info returns what is known about the run so far.
func (s *Service) Info() Info {
	p, info := s.proc.Load(), s.info.Load()
	if p == nil || info == nil {
		return Info{}
	}
	now := *info
	now.Stderr = p.Tail()
	return now
}
