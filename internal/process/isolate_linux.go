package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CanIsolate says whether [Spec.Isolate] has an effect on this system.
const CanIsolate = true

// bootLimit bounds how long an init may take until it has started the child.
const bootLimit = 10 * time.Second

// initLink is the host's end of the socket to the init of a pid namespace. The
// init dies when this end is closed, however that happens, and the kernel kills
// everything in its namespace with it.
type initLink struct {
	socket *os.File
	lines  *bufio.Reader
}

// startIsolated starts argv in a new pid namespace, under an init that is program.
// Its process is the init's: the leader of the child's session and group, whose
// end is the end of all that the child started.
func startIsolated(ctx context.Context, program string, argv []string, attr *os.ProcAttr, l Limits) (*os.Process, *initLink, error) {
	if program == "" {
		return nil, nil, &StartError{Reason: Isolation, Path: argv[0], Err: errNoInit}
	}
	link, theirs, err := openLink()
	if err != nil {
		return nil, nil, err
	}
	inner := *attr
	inner.Files = append(slices.Clone(attr.Files), theirs)
	order, _ := json.Marshal(l) // numbers always encode
	words := append([]string{initName, string(order)}, argv...)
	proc, err := inNamespace(program, words, &inner)
	theirs.Close()
	if err == nil {
		err = link.started(ctx, argv[0])
		if err == nil {
			return proc, link, nil
		}
		_ = proc.Kill()
		_, _ = proc.Wait()
	} else if isAny(err, unix.EPERM, unix.ENOSPC, unix.EUSERS, unix.EINVAL, unix.ENOSYS) {
		err = &StartError{Reason: Isolation, Path: argv[0], Err: err}
	}
	link.close()
	return nil, nil, err
}

// inNamespace starts a process as the first of a pid namespace, with a mount
// namespace for a /proc that shows it. Who may not make these alone makes a user
// namespace with them, in which user and group keep their numbers.
func inNamespace(program string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	sys := *attr.Sys
	sys.Cloneflags |= unix.CLONE_NEWPID | unix.CLONE_NEWNS
	attr.Sys = &sys
	proc, err := os.StartProcess(program, argv, attr)
	if !errors.Is(err, unix.EPERM) {
		return proc, err
	}
	sys.Cloneflags |= unix.CLONE_NEWUSER
	uid, gid := os.Geteuid(), os.Getegid()
	sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	if uid != 0 {
		sys.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // of that namespace, for its /proc; the init gives it up
	}
	return os.StartProcess(program, argv, attr)
}

func openLink() (*initLink, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	_ = unix.SetNonblock(pair[0], true) // so that it can have a deadline
	ours := os.NewFile(uintptr(pair[0]), "init")
	return &initLink{socket: ours, lines: bufio.NewReader(ours)}, os.NewFile(uintptr(pair[1]), "host"), nil
}

func (l *initLink) close() error { return l.socket.Close() }

// started waits until the init has started path, and returns why it could not.
func (l *initLink) started(ctx context.Context, path string) error {
	_ = l.socket.SetReadDeadline(time.Now().Add(bootLimit))
	stop := context.AfterFunc(ctx, func() { _ = l.socket.SetReadDeadline(time.Unix(1, 0)) })
	line, err := l.lines.ReadString('\n')
	if !stop() {
		return ctx.Err()
	}
	_ = l.socket.SetReadDeadline(time.Time{})
	if err != nil {
		return &StartError{Reason: Isolation, Path: path, Err: fmt.Errorf("its init did not begin: %w", err)}
	}
	var r initReport
	if err := json.Unmarshal([]byte(line), &r); err != nil || r.Stage == "" {
		return err
	}
	cause := fmt.Errorf("%s", r.Text)
	if r.Errno != 0 {
		cause = &os.PathError{Op: r.Stage, Path: path, Err: unix.Errno(r.Errno)}
	}
	if r.Stage != stageStart {
		return &StartError{Reason: Isolation, Path: path, Err: cause}
	}
	return cause
}

// exit returns how the child ended, which only its init knows; when the init was
// killed, how that ended.
func (l *initLink) exit(init Exit) Exit {
	defer l.close()
	_ = l.socket.SetReadDeadline(time.Now().Add(drainWait)) // what a dead init said is there already
	line, _ := l.lines.ReadString('\n')
	var r initReport
	if json.Unmarshal([]byte(strings.TrimSpace(line)), &r) != nil || r.Status == nil {
		return init
	}
	status := syscall.WaitStatus(*r.Status)
	e := Exit{Code: status.ExitStatus()}
	e.Signal, e.CoreDumped = signalOf(status)
	return e
}
