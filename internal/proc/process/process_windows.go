package process

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// Windows has no SIGTERM: both steps of Stop kill the process.
const (
	term = syscall.SIGKILL
	kill = syscall.SIGKILL
)

// sysProcAttr keeps the host's Ctrl-C from the child.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// signal kills only the child: its descendants survive.
func (p *Process) signal(syscall.Signal) { _ = p.proc.Kill() }

// Dying returns false: this system does not report that a process is exiting.
func (p *Process) Dying() bool { return false }

// Stopped returns false: this system does not report that a process is stopped.
func (p *Process) Stopped() bool { return false }

func (p *Process) reap() (*os.ProcessState, error) {
	state, err := p.proc.Wait()
	close(p.exited)
	p.contained.release()
	return state, err
}

// readNow is never called: pipes have no read deadlines on Windows.
func readNow(*os.File, []byte) (int, error) { return 0, io.EOF }

func isBusy(err error) bool { return errors.Is(err, errSharingViolation) }

const errSharingViolation = syscall.Errno(32)

func endedBy(*os.ProcessState) (name string, core bool) { return "", false }

// diagnose finds the cause behind the system's error.
func (s *Spec) diagnose(err error) *StartError {
	e := &StartError{Reason: Other, Path: s.Path, Err: err}
	info, statErr := os.Stat(s.Path)
	switch {
	case isBusy(err):
		e.Reason = Busy
	case errors.Is(statErr, os.ErrNotExist):
		e.Reason = NotFound
	case statErr == nil && info.IsDir():
		e.Reason = IsDirectory
	case errors.Is(err, os.ErrPermission):
		e.Reason = NotExecutable
	case errors.Is(err, syscall.EINVAL):
		e.Reason = Invalid
	}
	if s.Dir != "" {
		if info, err := os.Stat(s.Dir); err != nil || !info.IsDir() {
			e.Reason, e.Culprit = CwdMissing, s.Dir
		}
	}
	return e
}

// Check returns a [*StartError] if the executable at path, which must be absolute, cannot be started; nil if no
// obstacle is found.
func Check(path string) error {
	if err := executable(path); err != nil {
		return (&Spec{Path: path}).diagnose(err)
	}
	return nil
}

func executable(file string) error {
	_, err := exec.LookPath(file)
	return err
}

// withExtension appends the matching extension of PATHEXT: weather becomes weather.exe.
func withExtension(file string) string {
	if found, err := exec.LookPath(file); err == nil {
		return found
	}
	return file
}
