package grpcpolicy

import (
	"cmp"
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
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

const (
	// shutdownTimeout bounds the Shutdown call, in which plugins save their state.
	shutdownTimeout = 2 * time.Second
	// exitGrace is how long to wait for the end of the process after the end of its connection. The
	// connection usually ends first.
	exitGrace = 500 * time.Millisecond
	// stopTimeout bounds the wait for a killed process.
	stopTimeout = 5 * time.Second
)

// Options configure a [Service].
type Options struct {
	// Spec is the policy, normalized and valid. Spec.Cwd is the working directory, against which
	// commands with a slash resolve; "" is the working directory of the host.
	Spec governance.Spec
	// Env is the complete environment of the process, as [process.Environ] returns it,
	// Spec.Env included. The four variables of the protocol are added and replace others of
	// the same name.
	Env []string
	// Resolve returns the environment for one start: Env with the values of secrets. Default:
	// returns Env.
	Resolve func(ctx context.Context) ([]string, error)
	// Logger receives stdout and stderr of the process, one record per line. Default:
	// discarded.
	Logger *slog.Logger
	// Containment contains the descendants of the process. Default: only its process group.
	Containment *process.Containment
}

// Service is one run of a policy's process; it is used once. Its methods are safe for
// concurrent use.
type Service struct {
	o    Options
	proc atomic.Pointer[process.Process] // nil before the start
	live atomic.Pointer[connection]      // nil while the policy is not ready
	info atomic.Pointer[Info]
}

// connection is the connection to a plugin that is ready.
type connection struct {
	client pluginv1.PluginServiceClient
	conn   *grpc.ClientConn
}

// Info describes a run.
type Info struct {
	PID       int
	StartedAt time.Time
	Handshake time.Duration            // duration from start to ready; 0 before
	Metadata  *pluginv1.PluginMetadata // as the plugin reported it; nil before GetMetadata
	Stderr    []string                 // the latest lines, not redacted
}

var _ governance.Policy = (*Service)(nil)

// New returns a service that has not been started.
func New(o Options) *Service {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Service{o: o}
}

// Serve runs the process in the calling goroutine until it ends, and calls ready once the plugin
// accepts calls. When ctx ends, Serve calls Shutdown, stops the process and returns nil. Otherwise
// it returns a *protocol.Error with evidence: SpawnFailed, HandshakeTimeout, HandshakeInvalid,
// ChildExited, or StdoutClosed when the plugin closed its socket and kept running.
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
	fault.Evidence = runtime.EvidenceOf(p)
	return fault
}

// run serves a started process until it ends, and returns the reason; nil when ctx has ended.
func (s *Service) run(ctx context.Context, p *process.Process, sock *socket, began time.Time, ready func(),
) *protocol.Error {
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
	l, fault := s.handshake(alive, sock, info)
	if fault == nil {
		s.live.Store(l)
		ready()
		fault = waitDisconnected(alive, l.conn)
		s.live.Store(nil)
	}
	end()
	if ctx.Err() != nil {
		s.shutdown(ctx, l)
		fault = nil
	} else {
		fault = s.exitError(p, fault)
	}
	if l != nil {
		l.conn.Close() // ends the pending calls
	}
	s.reap(p)
	tasks.Wait()
	return fault
}

// waitDisconnected returns nil when ctx ends, or an error when the plugin stops listening. A closed
// connection alone is not an error: servers with a maximum connection age close one and accept a
// new one.
func waitDisconnected(ctx context.Context, conn *grpc.ClientConn) *protocol.Error {
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

// shutdown calls Shutdown and stops the process, each within its timeout.
func (s *Service) shutdown(ctx context.Context, l *connection) {
	ctx = context.WithoutCancel(ctx)
	if l != nil {
		shutdownCtx, cancel := context.WithTimeout(ctx, shutdownTimeout)
		_, _ = l.client.Shutdown(shutdownCtx, &emptypb.Empty{}) // on an error, SIGTERM has the same effect
		cancel()
		l.conn.Close() // a graceful server waits until its connections are closed
	}
	// Plugins do not react to the end of stdin, so Stop does not wait for that.
	if err := s.proc.Load().Stop(ctx, 0); err != nil {
		s.o.Logger.Error("process survived SIGKILL", "error", err)
	}
}

// exitError returns the error for a run that ended with fault, which may be nil. If the process has
// ended or is about to, the error states how it ended: the end of its socket is usually the first
// sign.
func (s *Service) exitError(p *process.Process, fault *protocol.Error) *protocol.Error {
	if fault != nil && !errors.Is(fault, errDisconnected) && fault.Kind != protocol.StdoutClosed {
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

func (s *Service) reap(p *process.Process) {
	p.Kill()
	select {
	case <-p.Done():
	case <-time.After(stopTimeout):
		s.o.Logger.Error("process survived SIGKILL", "pid", p.PID())
	}
}

// Kill kills the process, if there is one. It does not wait.
func (s *Service) Kill() {
	if p := s.proc.Load(); p != nil {
		p.Kill()
	}
}

// Info returns the present state of the run.
func (s *Service) Info() Info {
	p, info := s.proc.Load(), s.info.Load()
	if p == nil || info == nil {
		return Info{}
	}
	now := *info
	now.Stderr = p.Tail()
	return now
}
