package process

import (
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/lineage"
	"github.com/exthost/exthost/internal/proc/sandbox/confine"
)

// CanRestrict reports whether [Spec.NewPrivileges] has an effect on this system.
const CanRestrict = true

// launcher starts children on a thread that has given up privileges: privileges are attributes of a
// thread, and a child inherits them from the thread that starts it. The thread lives as long as its
// children, because their parent-death signal is sent at the end of this thread.
// A nil launcher is the caller's thread, with all its privileges.
type launcher struct {
	prepare func() error // runs first on the thread; nil: give up all but confine.KeptCapabilities

	mu    sync.Mutex
	users int // starts under way, and children that are not reaped
	jobs  chan func()
	state chan error // receives the error of prepare; closed when the thread ends
}

var restricted launcher

// launcher returns the launcher for s. The caller must call leave after a failed start, or when the child has been
// reaped.
func (s *Spec) launcher() (*launcher, error) {
	if s.Sandbox != nil && s.NewPrivileges {
		return nil, &StartError{Reason: Sandbox, Path: s.Path, Err: errPrivilegedSandbox}
	}
	if s.Sandbox != nil && !s.Isolate {
		l := &launcher{prepare: func() error {
			if err := giveUp(confine.ConfinedCapabilities); err != nil {
				return err
			}
			return s.Sandbox.Confine(s.Path)
		}}
		if err := l.enter(); err != nil {
			return nil, &StartError{Reason: Sandbox, Path: s.Path, Err: err}
		}
		return l, nil
	}
	if s.NewPrivileges {
		lineage.Privileged()
	}
	if s.NewPrivileges || s.Isolate { // an init needs privileges until it starts the child
		return nil, nil
	}
	if err := restricted.enter(); err != nil {
		return nil, &StartError{Reason: Privileges, Path: s.Path, Err: err}
	}
	return &restricted, nil
}

// giveUp gives up all privileges but kept. If that does not mark the thread, giveUp tells package
// lineage.
func giveUp(kept uint64) error {
	marked, err := confine.Privileges(kept)
	if !marked {
		lineage.Unfiltered()
	}
	return err
}

// Launch runs start so that the process it starts has the privileges of a child for s. It is for processes that [Start]
// cannot start. The caller must call reaped after the end of that process. The error is start's or a [*StartError].
func Launch(s Spec, start func() error) (reaped func(), err error) {
	l, err := s.launcher()
	if err != nil {
		return nil, err
	}
	l.run(func() { err = start() })
	if err != nil {
		l.leave()
		return nil, err
	}
	return l.leave, nil
}

func (l *launcher) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == 0 {
		l.jobs, l.state = make(chan func()), make(chan error)
		prepare := l.prepare
		if prepare == nil {
			prepare = func() error { return giveUp(confine.KeptCapabilities) }
		}
		go work(prepare, l.jobs, l.state)
		if err := <-l.state; err != nil {
			return err
		}
	}
	l.users++
	return nil
}

func (l *launcher) leave() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users == 0 {
		close(l.jobs)
		<-l.state
	}
}

// run runs f on the launcher's thread and waits for it.
func (l *launcher) run(f func()) {
	if l == nil {
		f()
		return
	}
	done := make(chan struct{})
	l.jobs <- func() { defer close(done); f() }
	<-done
}

// bind makes the kernel kill a child that the launcher starts with attr when this process ends. Without a guardian, a
// child that is forked but not yet traced would stay stopped at its exec. With one, bind must not be called: the
// guardian finds descendants through their parents, which must not die first.
func (l *launcher) bind(attr *syscall.SysProcAttr) {
	if l != nil {
		attr.Pdeathsig = unix.SIGKILL
	}
}

// work runs jobs on a thread that ends with work, because the goroutine stays locked to it. The runtime starts no other
// thread from a locked one.
func work(prepare func() error, jobs <-chan func(), state chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() { // the main thread never ends, and represents the process
		defer runtime.UnlockOSThread()
		moved := make(chan struct{})
		go func() { defer close(moved); work(prepare, jobs, state) }()
		<-moved
		return
	}
	defer close(state)
	err := prepare()
	if state <- err; err != nil {
		return
	}
	for job := range jobs {
		job()
	}
}
