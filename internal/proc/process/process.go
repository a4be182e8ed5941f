package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/proc/containment/lineage"
	"github.com/exthost/exthost/internal/proc/sandbox"
)

const (
	// killWait bounds the wait after SIGKILL: a process in uninterruptible sleep cannot be killed.
	killWait = 2 * time.Second
	// drainWait bounds the delivery of the last stderr lines after the exit.
	drainWait = 500 * time.Millisecond
)

// ErrUnkillable is returned by [Process.Stop] if the process still exists two seconds after SIGKILL, for example in
// uninterruptible sleep.
var ErrUnkillable = errors.New("process: still alive after SIGKILL")

// Spec describes the process to start.
type Spec struct {
	// Path is the absolute path of the executable, see [Resolve]. It is also the child's argv[0].
	Path string
	// Args are the arguments after argv[0].
	Args []string
	// Dir is the working directory; default the host's.
	Dir string
	// Env is the complete environment; see [Environ]. Nil is empty.
	Env []string
	// StderrLine receives the lines of the child's stderr, in order, on one goroutine. If
	// StderrLine is slow, lines are lost and counted; the child is never blocked. Nil drops all
	// lines. Tail works in any case.
	StderrLine func(Line)
	// Stderr limits the lines passed to StderrLine.
	Stderr StderrOptions
	// StdoutToStderr connects the child's stdout to its stderr, for a child that does not communicate over stdout.
	// Process.Stdout is then nil.
	StdoutToStderr bool
	// KillGrace is the time between SIGTERM and SIGKILL; default 1 s, negative: none.
	KillGrace time.Duration
	// Limits are the resource limits of the child, where [limited.Enforced] is true.
	Limits limited.Limits
	// Containment kills the child's descendants when the child ends. If nil, only the process group
	// is killed, and only while this process lives.
	Containment *Containment
	// Isolate runs the child in a pid namespace, where [CanIsolate] is true: the kernel kills the child and its
	// descendants when the child or this process ends. It requires a Containment with a program.
	Isolate bool
	// Sandbox confines the child; nil: not confined. NewPrivileges must then be false.
	Sandbox *sandbox.Policy
	// NewPrivileges lets the child gain privileges through setuid programs and file capabilities, and keeps the
	// capabilities of this process. Otherwise a child has no_new_privs on Linux, and as root only safe capabilities.
	NewPrivileges bool

	mark uint64 // of the child and its descendants, see package sweep; 0 if the system has none
}

// Process is a started child. Its methods are safe for concurrent use.
type Process struct {
	// Stdin is the host's end of the child's stdin. Stop and the end of the child close Stdin,
	// which fails a blocked Write. The caller may close it earlier.
	Stdin *os.File
	// Stdout is the host's end of the child's stdout. The caller reads and closes it. The child's
	// last output can still be read after Done; the caller must set a deadline for that, because a
	// grandchild outside the group may hold the pipe open. Nil with Spec.StdoutToStderr.
	Stdout *os.File

	proc      *os.Process
	init      *initConn // not nil if isolated; proc is then the init
	parent    *launcher // nil if isolated or with Spec.NewPrivileges; shared unless Spec.Sandbox is set
	contained *containedChild
	proxy     io.Closer // of the child's sandbox; nil for none
	stderr    *stderrReader
	killGrace time.Duration // between SIGTERM and SIGKILL
	limits    limited.Limits
	oomKills  uint64        // at the start, see oomKills
	killed    atomic.Bool   // Kill or Stop has sent a signal
	exited    chan struct{} // closed by reap
	done      chan struct{}
	exit      Exit // set before done is closed

	mu     sync.Mutex
	reaped bool // the pid may be reused: send no signals
}

// Start starts the child. ctx bounds the start, not the life of the child. If the file is open for writing, Start
// retries for 100 ms. The error is a [*StartError] or ctx.Err().
func Start(ctx context.Context, s Spec) (*Process, error) {
	if !filepath.IsAbs(s.Path) {
		return nil, &StartError{Reason: Invalid, Path: s.Path, Err: errors.New("not an absolute path")}
	}
	if s.Containment.ownNamespaces(s.Sandbox) {
		bound := s
		bound.Isolate = true
		bound.Limits.Processes = cmp.Or(s.Limits.Processes, limited.OfSandbox())
		p, err := bound.start(ctx)
		asked := s.Isolate || s.Sandbox.Namespaced() || s.Limits.Processes > 0
		if asked || !errors.Is(err, errNoProc) {
			return p, err
		}
		s.Containment.noProc.Store(true)
	}
	return s.start(ctx)
}

func (s *Spec) start(ctx context.Context) (*Process, error) {
	parent, err := s.launcher()
	if err != nil {
		return nil, err
	}
	pipes, err := openPipes()
	if err != nil {
		parent.leave()
		return nil, &StartError{Reason: Resource, Path: s.Path, Err: err}
	}
	if s.StdoutToStderr {
		pipes.joinOutputs()
	}
	hold := s.Containment.prepare()
	s.Env, s.mark = hold.environ(s.Env), hold.marks().First
	proc, init, err := s.spawn(ctx, parent, pipes.child[:])
	closeAll(pipes.child[:])
	if err != nil {
		hold.abandon()
		closeAll(pipes.host[:])
		parent.leave()
		return nil, err
	}
	hold.attach(proc.Pid)
	p := &Process{
		Stdin:     pipes.host[0],
		Stdout:    pipes.host[1],
		proc:      proc,
		init:      init,
		parent:    parent,
		contained: hold,
		killGrace: cmp.Or(s.KillGrace, time.Second),
		limits:    s.Limits,
		oomKills:  oomKills(),
		exited:    make(chan struct{}),
		done:      make(chan struct{}),
	}
	p.proxy = init.openProxy(s.Sandbox)
	p.stderr = readStderr(pipes.host[2], s.StderrLine, s.Stderr)
	go p.watch()
	return p, nil
}

// busyRetries are the pauses before retries if the file is open for writing, by an installer or by a concurrent fork of
// this process.
var busyRetries = []time.Duration{20 * time.Millisecond, 30 * time.Millisecond, 50 * time.Millisecond}

// spawn starts the child with stdio as its descriptors 0, 1 and 2.
func (s *Spec) spawn(ctx context.Context, parent *launcher, stdio []*os.File) (*os.Process, *initConn, error) {
	attr := &os.ProcAttr{Dir: s.Dir, Env: s.Env, Files: stdio, Sys: sysProcAttr()}
	if attr.Env == nil {
		attr.Env = []string{} // nil would mean the environment of this process
	}
	argv := append([]string{s.Path}, s.Args...)
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		proc, init, err := s.launch(ctx, parent, argv, attr)
		if err == nil {
			return proc, init, nil
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if !isBusy(err) || try == len(busyRetries) {
			if e, ok := errors.AsType[*StartError](err); ok {
				return nil, nil, e
			}
			return nil, nil, s.diagnose(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(busyRetries[try]):
		}
	}
}

func (s *Spec) launch(ctx context.Context, parent *launcher, argv []string, attr *os.ProcAttr,
) (proc *os.Process, init *initConn, err error) {
	if s.Isolate {
		return s.startIsolated(ctx, argv, attr)
	}
	if !s.Containment.guarded() {
		parent.bind(attr.Sys)
	}
	marked, mark := false, limited.Mark{Limit: s.mark, Late: s.NewPrivileges || s.Sandbox != nil}
	parent.run(func() { proc, marked, err = limited.Start(s.Path, argv, attr, s.Limits, mark) })
	if err == nil && !marked && !mark.Late {
		lineage.MarkedLate()
	}
	return proc, nil, err
}

// watch waits for the exit of the child and closes done.
func (p *Process) watch() {
	state, err := p.reap()
	p.parent.leave()
	if p.proxy != nil {
		p.proxy.Close()
	}
	p.Stdin.Close() // fails blocked writes
	p.stderr.finish()
	p.exit = exitOf(state, err)
	if p.init != nil {
		p.exit = p.init.exit(p.exit)
	}
	var used time.Duration
	if state != nil {
		used = state.UserTime() + state.SystemTime()
	}
	p.exit.By = p.sender(p.exit, used)
	close(p.done)
}

// PID returns the process id of the child, or of its init if isolated. It is also the id of the child's process group
// and session. It may be reused after Done.
func (p *Process) PID() int { return p.proc.Pid }

// Exited is closed when the child has exited. Done follows within seconds, after the descendants are killed and stderr
// is read.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Done is closed when the child has been reaped, its process group and descendants have been killed as far as the
// containment can, and its stderr has been read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns the exit of the child. It is valid after Done.
func (p *Process) Exit() Exit { return p.exit }

// Tail returns the last 20 lines of stderr so far, oldest first, escaped and not redacted.
func (p *Process) Tail() []string { return p.stderr.tail.lines(time.Time{}) }

// TailSince is like Tail, for lines read after since.
func (p *Process) TailSince(since time.Time) []string { return p.stderr.tail.lines(since) }

// Kill sends SIGKILL to the child's process group. It does not wait.
func (p *Process) Kill() {
	p.killed.Store(true)
	p.signal(kill)
}

// Stop ends the child: it closes stdin, waits for grace, sends SIGTERM to the process group, waits for KillGrace and
// sends SIGKILL. It returns as soon as the child has ended. When ctx ends, it sends SIGKILL at once. The error is nil
// or ErrUnkillable.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	p.Stdin.Close()
	if p.waitFor(ctx, grace) {
		return nil
	}
	p.killed.Store(true)
	p.signal(term)
	if p.waitFor(ctx, p.killGrace) {
		return nil
	}
	p.signal(kill)
	if p.waitFor(context.WithoutCancel(ctx), killWait) {
		return nil
	}
	return fmt.Errorf("pid %d: %w", p.PID(), ErrUnkillable)
}

// waitFor reports whether the child ends within d and before ctx ends.
func (p *Process) waitFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// pipeEnds holds both ends of a child's stdin, stdout and stderr.
type pipeEnds struct{ child, host [3]*os.File }

// openPipes creates the pipes. os/exec is not used, because its Wait closes them and so loses the last output.
func openPipes() (s pipeEnds, err error) {
	for i := range s.child {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(s.child[:i])
			closeAll(s.host[:i])
			return pipeEnds{}, err
		}
		if i == 0 {
			s.child[i], s.host[i] = r, w
		} else {
			s.child[i], s.host[i] = w, r
		}
	}
	return s, nil
}

// joinOutputs connects the child's stdout to the pipe of its stderr.
func (s *pipeEnds) joinOutputs() {
	s.child[1].Close()
	s.host[1].Close()
	s.child[1], s.host[1] = s.child[2], nil
}

// closeAll closes files, ignoring nil and closed ones.
func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
