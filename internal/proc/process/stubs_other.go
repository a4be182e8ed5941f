//go:build !linux

package process

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/proc/containment/sweep"
	"github.com/exthost/exthost/internal/proc/sandbox"
)

// Stubs of what exists on Linux only.

// support returns the containment mechanisms that work on this system, and those that do not.
func support() (holds, lacks []string) {
	if runtime.GOOS == "windows" {
		return nil, []string{
			HoldsGroup + ": not on Windows, where only the child itself is ended",
			HoldsSweep + ": only on Linux",
		}
	}
	return []string{HoldsGroup}, []string{HoldsSweep + ": only on Linux"}
}

// guardian is a process that exists on Linux only.
type guardian struct {
	proc  *os.Process
	ready bool
	began time.Time
}

func startGuardian(string, string, sweep.Marks, map[int]uint64) (*guardian, error) {
	return nil, errors.ErrUnsupported
}

func (*guardian) isUp() bool                 { return false }
func (*guardian) mayGuard() bool             { return false }
func (*guardian) ended() bool                { return true }
func (*guardian) notify(string, int, uint64) {}
func (*guardian) watch()                     {}
func (*guardian) close()                     {}

// Conceal does nothing on this system.
func Conceal() {}

func (*containedChild) sweep() {}
func (*Containment) sweepAll() {}

// CanIsolate reports whether [Spec.Isolate] has an effect on this system.
const CanIsolate = false

// initConn exists on Linux only.
type initConn struct{}

func (s *Spec) startIsolated(_ context.Context, argv []string, attr *os.ProcAttr) (*os.Process, *initConn, error) {
	proc, _, err := limited.Start(argv[0], argv, attr, s.Limits, limited.Mark{})
	return proc, nil, err
}

func (*initConn) exit(init Exit) Exit { return init }

func (*initConn) openProxy(*sandbox.Policy) io.Closer { return nil }

func namespaces() error { return errors.ErrUnsupported }

// CanRestrict reports whether [Spec.NewPrivileges] has an effect on this system.
const CanRestrict = false

// launcher exists on Linux only.
type launcher struct{}

func (s *Spec) launcher() (*launcher, error) {
	if s.Sandbox != nil {
		if err := s.Sandbox.Confine(s.Path); err != nil {
			return nil, &StartError{Reason: Sandbox, Path: s.Path, Err: err}
		}
	}
	return nil, nil
}

func (*launcher) run(f func()) { f() }
func (*launcher) leave()       {}

func (*launcher) bind(*syscall.SysProcAttr) {}

// SessionMemory returns nil on this system.
func SessionMemory() map[int]int64 { return nil }

// Memory returns 0 on this system.
func Memory() int64 { return 0 }

// oomKills returns 0 on this system.
func oomKills() uint64 { return 0 }

// FollowNice does nothing on this system, where nice values apply across sessions.
func (p *Process) FollowNice(context.Context) {}

// CloseOnExecAll does nothing on this system.
func CloseOnExecAll() error { return nil }

// NoteEnd does nothing without a guardian.
func NoteEnd(string) {}

// CountFiles returns the number of open files of this process; 0: unknown.
func CountFiles() int { return 0 }
