package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/helper"
	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/proc/sandbox/egress"
)

// CanIsolate reports whether [Spec.Isolate] has an effect on this system.
const CanIsolate = true

// initStartLimit bounds the time in which an init must start the child.
const initStartLimit = 10 * time.Second

// initConn is the host's end of the socket to an init. When it is closed, for any reason, the init exits and the kernel
// kills all processes of the namespace.
type initConn struct {
	socket *os.File
	lines  *bufio.Reader
	listen net.Listener // for the child's proxy; nil for none
}

// startIsolated starts argv in a new pid namespace. It returns the process of the init, which leads the session and
// group of the child.
func (s *Spec) startIsolated(ctx context.Context, argv []string, attr *os.ProcAttr) (*os.Process, *initConn, error) {
	program := s.Containment.initProgram()
	if program == "" {
		return nil, nil, &StartError{Reason: Isolation, Path: argv[0], Err: errNoInit}
	}
	t, err := s.terms()
	if err != nil {
		return nil, nil, err
	}
	link, initEnd, err := newInitConn()
	if err != nil {
		return nil, nil, err
	}
	inner := *attr
	inner.Files = append(slices.Clone(attr.Files), initEnd)
	order, _ := json.Marshal(t) // cannot fail
	words := append([]string{helper.InitName, string(order)}, argv...)
	proc, err := startInNamespace(program, words, &inner, t.Sandbox != nil)
	initEnd.Close()
	if err == nil {
		err = link.awaitStart(ctx, argv[0])
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

// terms returns the terms for the init. The error means that the system cannot enforce the sandbox.
func (s *Spec) terms() (helper.Terms, error) {
	t := helper.Terms{Limits: s.Limits, Mark: s.mark, NewPrivileges: s.NewPrivileges}
	if s.Sandbox == nil {
		return t, nil
	}
	p := *s.Sandbox
	p.OwnProc, p.OwnNet = true, true
	if _, err := p.Check(); err != nil {
		return t, &StartError{Reason: Sandbox, Path: s.Path, Err: err}
	}
	t.Sandbox = &helper.Sandbox{Rules: p.Rules(s.Path), Network: p.Namespaced(), Proxy: len(p.Net.Hosts()) > 0}
	return t, nil
}

// startInNamespace starts a process as the first one of a new pid namespace, with a mount namespace for its /proc and,
// if network is set, a network namespace. If this process may not create these, it also creates a user namespace, in
// which user and group keep their numbers.
func startInNamespace(program string, argv []string, attr *os.ProcAttr, network bool) (*os.Process, error) {
	sys := *attr.Sys
	sys.Cloneflags |= unix.CLONE_NEWPID | unix.CLONE_NEWNS
	if network {
		sys.Cloneflags |= unix.CLONE_NEWNET
	}
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
		sys.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // within the namespace, to mount /proc; the init drops it
		if network {
			sys.AmbientCaps = append(sys.AmbientCaps, unix.CAP_NET_ADMIN) // to bring the loopback interface up
		}
	}
	revealed(func() { proc, err = os.StartProcess(program, argv, attr) })
	return proc, err
}

func newInitConn() (*initConn, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	_ = unix.SetNonblock(pair[0], true) // required for deadlines
	socket := os.NewFile(uintptr(pair[0]), "init")
	return &initConn{socket: socket, lines: bufio.NewReader(socket)}, os.NewFile(uintptr(pair[1]), "host"), nil
}

func (l *initConn) close() error {
	if l.listen != nil {
		l.listen.Close()
	}
	return l.socket.Close()
}

// awaitStart waits until the init has started path, and returns the error of that start.
func (l *initConn) awaitStart(ctx context.Context, path string) error {
	_ = l.socket.SetReadDeadline(time.Now().Add(initStartLimit))
	stop := context.AfterFunc(ctx, func() { _ = l.socket.SetReadDeadline(time.Unix(1, 0)) })
	err := l.receiveListener()
	line := ""
	if err == nil {
		line, err = l.lines.ReadString('\n')
	}
	if !stop() {
		return ctx.Err()
	}
	_ = l.socket.SetReadDeadline(time.Time{})
	if err != nil {
		return &StartError{Reason: Isolation, Path: path, Err: fmt.Errorf("its init did not begin: %w", err)}
	}
	var r helper.Report
	if err := json.Unmarshal([]byte(line), &r); err != nil || r.Stage == "" {
		return err
	}
	cause := fmt.Errorf("%s", r.Text)
	if r.Errno != 0 {
		cause = &os.PathError{Op: r.Stage, Path: path, Err: unix.Errno(r.Errno)}
	}
	switch r.Stage {
	case helper.StageSandbox, helper.StageNetwork:
		return &StartError{Reason: Sandbox, Path: path, Err: errors.New(r.Text)}
	case helper.StageProc, helper.StageProcesses:
		return &StartError{Reason: Isolation, Path: path, Err: fmt.Errorf("%w: %w", errNoProc, cause)}
	case helper.StagePrivileges:
		return &StartError{Reason: Privileges, Path: path, Err: cause}
	}
	return cause
}

// exit returns the child's exit as reported by the init, or the exit of the init if it was killed.
func (l *initConn) exit(init Exit) Exit {
	defer l.close()
	_ = l.socket.SetReadDeadline(time.Now().Add(drainWait)) // a dead init's report is already in the socket
	line, _ := l.lines.ReadString('\n')
	var r helper.Report
	if json.Unmarshal([]byte(strings.TrimSpace(line)), &r) != nil || r.Status == nil {
		return init
	}
	status := syscall.WaitStatus(*r.Status)
	e := Exit{Code: status.ExitStatus()}
	e.Signal, e.CoreDumped = signalOf(status)
	return e
}

// namespaces returns nil if a child can have a network namespace, else the reason. It starts a
// program that does not exist: the kernel notices that only after it has created the namespaces.
var namespaces = sync.OnceValue(func() error {
	attr := &os.ProcAttr{Sys: &syscall.SysProcAttr{}}
	proc, err := startInNamespace("/nonexistent", []string{"none"}, attr, true)
	if err == nil { // the program does exist
		_ = proc.Kill()
		_, err = proc.Wait()
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
})

// receiveListener takes the listener that the init may send first.
func (l *initConn) receiveListener() error {
	raw, err := l.socket.SyscallConn()
	if err != nil {
		return err
	}
	var first [1]byte
	rights := make([]byte, unix.CmsgSpace(4))
	n, oob := 0, 0
	waited := raw.Read(func(fd uintptr) bool {
		n, oob, _, _, err = unix.Recvmsg(int(fd), first[:], rights, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(err, unix.EAGAIN)
	})
	switch err := errors.Join(waited, err); {
	case err != nil:
		return err
	case n == 0:
		return io.EOF
	case first[0] != helper.ListenerMark:
		l.lines.Reset(io.MultiReader(strings.NewReader(string(first[:])), l.socket))
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(rights[:oob])
	var fds []int
	if err == nil && len(messages) == 1 {
		fds, err = unix.ParseUnixRights(&messages[0])
	}
	if err != nil || len(fds) != 1 {
		return fmt.Errorf("the listener of its proxy did not arrive: %d messages, %d descriptors, error %v",
			len(messages), len(fds), err)
	}
	file := os.NewFile(uintptr(fds[0]), "proxy")
	defer file.Close()
	l.listen, err = net.FileListener(file)
	return err
}

// openProxy serves the child's listener until the returned Closer is closed; nil if there is none.
func (l *initConn) openProxy(p *sandbox.Policy) io.Closer {
	if l == nil || l.listen == nil {
		return nil
	}
	return egress.Serve(l.listen, slices.Clone(p.Net.Hosts()), p.Record)
}
