package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// termGrace is how long a process group may take to act upon SIGTERM.
	termGrace = time.Second
	// killWait bounds the wait for a killed process: one in uninterruptible
	// sleep cannot be killed, and nobody may wait for it for ever.
	killWait = 2 * time.Second
	// drainWait bounds what Done waits for after the exit: the delivery of the
	// last stderr lines.
	drainWait = 500 * time.Millisecond
)

// ErrUnkillable is returned by [Process.Stop] when the process is still there
// two seconds after SIGKILL, as one in uninterruptible sleep is.
var ErrUnkillable = errors.New("process: still alive after SIGKILL")

// Spec says what to start.
type Spec struct {
	// Path is the executable, absolute, as [Resolve] returns it. It is also the
	// child's argv[0].
	Path string
	// Args are the arguments after argv[0].
	Args []string
	// Dir is the working directory; default the host's.
	Dir string
	// Env is the complete environment, as [Environ] returns it; nil is empty.
	Env []string
	// StderrLine receives what the child writes to stderr, line by line and in
	// order, on one goroutine. One that blocks loses lines (they are counted);
	// it never blocks the child. Nil drops all lines; the tail is kept anyway.
	StderrLine func(Line)
	// Stderr bounds what reaches StderrLine.
	Stderr StderrOptions
	// StdoutToStderr makes the child's stdout its stderr, for one that is spoken
	// to in another way; Process.Stdout is nil then.
	StdoutToStderr bool
	// Limits bound the child on systems where [CanLimit] says so.
	Limits Limits
	// Containment holds what the child starts, so that it dies with it. Nil holds
	// the process group alone, and while this process lives.
	Containment *Containment
	// Isolate has the child, and all that it starts, in a pid namespace on systems
	// where [CanIsolate] says so: when the child ends, or this process, the kernel
	// kills them. It takes a Containment with a program.
	Isolate bool
}

// Process is a started child. Its methods may be called from any goroutine.
type Process struct {
	// Stdin is our end of the child's stdin. It is closed when the child dies
	// and by Stop, which fails a blocked Write; closing it earlier is allowed.
	Stdin *os.File
	// Stdout is our end of the child's stdout. It belongs to the caller, who
	// reads and closes it: what the child wrote before it died is still in
	// there after Done. A grandchild outside the group may keep it from ending,
	// so reading on after Done needs a deadline. Nil with Spec.StdoutToStderr.
	Stdout *os.File

	proc   *os.Process
	init   *initLink // nil unless isolated, else proc is the init
	hold   *hold
	stderr *stderrReader
	exited chan struct{} // closed by reap
	done   chan struct{}
	exit   Exit // written before done is closed

	mu     sync.Mutex
	reaped bool // the pid is no longer ours: no signal may be sent
}

// Start starts the child. Ctx bounds the attempt to start (a file busy being
// written is tried again for 100 ms), not the life of the child. The error is a
// [*StartError], or ctx's.
func Start(ctx context.Context, s Spec) (*Process, error) {
	if !filepath.IsAbs(s.Path) {
		return nil, &StartError{Reason: Invalid, Path: s.Path, Err: errors.New("not an absolute path")}
	}
	pipes, err := openPipes()
	if err != nil {
		return nil, &StartError{Reason: Resource, Path: s.Path, Err: err}
	}
	if s.StdoutToStderr {
		pipes.joinOutputs()
	}
	hold := s.Containment.prepare()
	s.Env = hold.environ(s.Env)
	proc, init, err := spawn(ctx, &s, pipes.child[:])
	closeAll(pipes.child[:])
	if err != nil {
		closeAll(pipes.host[:])
		return nil, err
	}
	hold.take(proc.Pid)
	p := &Process{
		Stdin:  pipes.host[0],
		Stdout: pipes.host[1],
		proc:   proc,
		init:   init,
		hold:   hold,
		exited: make(chan struct{}),
		done:   make(chan struct{}),
	}
	p.stderr = readStderr(pipes.host[2], s.StderrLine, s.Stderr)
	go p.watch()
	return p, nil
}

// busyRetries are the pauses before another try to start a file that is still
// open for writing, by an installer or by a fork elsewhere in this process.
var busyRetries = []time.Duration{20 * time.Millisecond, 30 * time.Millisecond, 50 * time.Millisecond}

// spawn starts the child with stdio as its descriptors 0, 1 and 2.
func spawn(ctx context.Context, s *Spec, stdio []*os.File) (*os.Process, *initLink, error) {
	attr := &os.ProcAttr{Dir: s.Dir, Env: s.Env, Files: stdio, Sys: sysProcAttr()}
	if attr.Env == nil {
		attr.Env = []string{} // nil would mean ours
	}
	argv := append([]string{s.Path}, s.Args...)
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		proc, init, err := launch(ctx, s, argv, attr)
		if err == nil {
			return proc, init, nil
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if !isBusy(err) || try == len(busyRetries) {
			return nil, nil, explain(s, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(busyRetries[try]):
		}
	}
}

// explain returns err as a *StartError.
func explain(s *Spec, err error) *StartError {
	if e, ok := errors.AsType[*StartError](err); ok {
		return e
	}
	return diagnose(s, err)
}

func launch(ctx context.Context, s *Spec, argv []string, attr *os.ProcAttr) (*os.Process, *initLink, error) {
	if s.Isolate {
		return startIsolated(ctx, s.Containment.initProgram(), argv, attr, s.Limits)
	}
	proc, err := startProcess(s.Path, argv, attr, s.Limits)
	return proc, nil, err
}

// watch waits for the child's death and tells it.
func (p *Process) watch() {
	state, err := p.reap()
	p.Stdin.Close() // whoever is still writing is writing to nobody
	p.stderr.finish()
	p.exit = exitOf(state, err)
	if p.init != nil {
		p.exit = p.init.exit(p.exit)
	}
	close(p.done)
}

// PID returns the child's process id, or its init's when it is isolated, which is
// also the id of its process group and session. After Done it may belong to somebody else.
func (p *Process) PID() int { return p.proc.Pid }

// Exited is closed when the child has exited. Done follows, within seconds: what it
// left behind has yet to be killed and its stderr to be read.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Done is closed when the child has been reaped, its process group and whatever
// else its containment holds killed, and its stderr read to the end.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the child ended. It is valid after Done.
func (p *Process) Exit() Exit { return p.exit }

// Tail returns the last 20 lines of stderr so far, oldest first, escaped and
// not redacted.
func (p *Process) Tail() []string { return p.stderr.tail.lines() }

// Kill sends SIGKILL to the child's process group. It does not wait.
func (p *Process) Kill() { p.signal(kill) }

// Stop ends the child: it closes stdin, waits grace, sends SIGTERM to the
// process group, waits a second, sends SIGKILL, and returns as soon as the
// child is dead. The end of ctx cuts every wait short: SIGKILL at once. The
// error is nil or ErrUnkillable.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	p.Stdin.Close()
	if p.waitFor(ctx, grace) {
		return nil
	}
	p.signal(term)
	if p.waitFor(ctx, termGrace) {
		return nil
	}
	p.signal(kill)
	if p.waitFor(context.WithoutCancel(ctx), killWait) {
		return nil
	}
	return fmt.Errorf("pid %d: %w", p.PID(), ErrUnkillable)
}

// waitFor reports whether the child is dead within d and before ctx ends.
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

// openPipes makes the pipes ourselves: those of os/exec are closed by Wait,
// which loses the last lines of output.
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

// joinOutputs makes the pipe of stderr that of stdout, too.
func (s *pipeEnds) joinOutputs() {
	s.child[1].Close()
	s.host[1].Close()
	s.child[1], s.host[1] = s.child[2], nil
}

// closeAll closes files; those that are nil or closed already do no harm.
func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
