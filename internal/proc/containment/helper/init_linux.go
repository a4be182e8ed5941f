package helper

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/proc/sandbox/confine"
)

// InitName is the init's argv[0]. The number is the version of its arguments and reports.
const InitName = "exthost-init-4"

func init() {
	if len(os.Args) > 0 && os.Args[0] == InitName {
		runInit(os.NewFile(3, "host"), os.Args[1:])
		unix.Exit(0)
	}
}

// Terms tell an init how to start its child.
type Terms struct {
	Limits        limited.Limits
	Mark          uint64 // see package sweep; 0 for no mark
	NewPrivileges bool
	Sandbox       *Sandbox // nil: not sandboxed
}

// Sandbox confines a child.
type Sandbox struct {
	Rules *confine.Rules
	// With Network, the init brings up the loopback interface of the network namespace. With Proxy,
	// it also listens there, sends the listener to the host, and sets the proxy variables of the
	// child's environment.
	Network, Proxy bool
}

// Report is a message of an init to the host. An init reports once that its child has started or
// could not be started, and once that the child has exited.
type Report struct {
	Stage  string `json:"stage,omitempty"` // the stage that failed; "" if none
	Errno  int    `json:"errno,omitempty"`
	Text   string `json:"text,omitempty"`
	Status *int   `json:"status,omitempty"` // the child's wait status
}

// The stages of an init that can fail.
const (
	StageProc       = "mount a /proc of its own"
	StageProcesses  = "limit its processes"
	StagePrivileges = "give up privileges"
	StageSandbox    = "confine"
	StageNetwork    = "set up its network"
	StageStart      = "fork/exec"
)

// runInit starts the child, reaps orphans, and ends when the child or the host ends; the kernel then kills every
// process of the namespace. args are the JSON of [Terms] and the child's argv.
func runInit(host *os.File, args []string) {
	runtime.LockOSThread() // the child inherits the privileges of this thread
	unix.CloseOnExec(int(host.Fd()))
	// The host signals the whole process group. Signals that would end a Go program are caught and
	// dropped; if they were ignored instead, the child would ignore them too.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM)
	var t Terms
	if len(args) < 2 || json.Unmarshal([]byte(args[0]), &t) != nil {
		return
	}
	if stage, err := t.prepare(host); err != nil {
		sendReport(host, failureReport(stage, err))
		return
	}
	t.Limits.Processes = 0 // already set for the whole namespace
	child, err := start(args[1:], t.Limits)
	if err != nil {
		sendReport(host, failureReport(StageStart, err))
		return
	}
	releaseStdio()
	sendReport(host, Report{})
	go func() {
		unmap("") // on another thread: the sandbox of the child's thread may hide /proc
		awaitEnd(int(host.Fd()))
		unix.Exit(1)
	}()
	status := int(reapUntil(child))
	sendReport(host, Report{Status: &status})
}

// prepare sets up the namespaces and gives up privileges, which the child inherits. It returns the stage that failed.
func (t *Terms) prepare(host *os.File) (stage string, err error) {
	for _, step := range []struct {
		stage string
		do    func() error
	}{
		{StageProc, mountProc},
		{StageProcesses, func() error { return limited.BoundProcesses(t.Limits.Processes) }},
		{StageNetwork, func() error { return t.Sandbox.setUpNetwork(host) }},
		{StageSandbox, t.Sandbox.restrictMounts},
		{StageProc, dropNamespaceCapabilities},
		{StagePrivileges, t.reducePrivileges},
		{StageSandbox, t.Sandbox.confine},
	} {
		if err := step.do(); err != nil {
			return step.stage, err
		}
	}
	return "", nil
}

// reducePrivileges sets the child's mark on this thread and gives up privileges, unless the child may have new ones.
func (t *Terms) reducePrivileges() error {
	limited.SetDefaults(0)
	if err := limited.SetMark(0, t.Mark); err != nil {
		return err
	}
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // its other threads keep privileges: no child may trace it
	if t.NewPrivileges {
		return nil
	}
	kept := confine.KeptCapabilities
	if t.Sandbox != nil {
		kept = confine.ConfinedCapabilities
	}
	_, err := confine.Privileges(kept)
	return err
}

// confine applies the rules of the sandbox to this thread.
func (s *Sandbox) confine() error {
	if s == nil {
		return nil
	}
	return s.Rules.Apply()
}

// ListenerMark is the first byte of the message with the listener of the child's proxy. No report begins with it.
const ListenerMark = '!'

// setUpNetwork brings up the loopback interface of this network namespace. For a proxy it also listens there, sends the
// listener to the host, and sets the proxy variables.
func (s *Sandbox) setUpNetwork(host *os.File) error {
	if s == nil || !s.Network {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring up its loopback interface: %w", err)
	}
	if !s.Proxy {
		return nil
	}
	err = errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, unix.SOMAXCONN))
	if err != nil {
		return fmt.Errorf("listen for its proxy: %w", err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(int(host.Fd()), []byte{ListenerMark}, unix.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("send the listener of its proxy: %w", err)
	}
	useProxy(at.(*unix.SockaddrInet4).Port)
	return nil
}

// useProxy sets the environment variables by which programs find a proxy.
func useProxy(port int) {
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"} {
		os.Setenv(name, address)
		os.Setenv(strings.ToLower(name), address)
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		os.Setenv(name, "localhost,127.0.0.1,::1")
	}
	os.Setenv("NODE_USE_ENV_PROXY", "1") // makes fetch of Node.js 24 read the other variables
}

// start starts the child and returns its pid.
func start(argv []string, l limited.Limits) (pid int, err error) {
	if l == (limited.Limits{}) {
		// The child inherits what SetDefaults set. Package os would start another process first, to probe the kernel.
		return syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	}
	attr := &os.ProcAttr{
		Env:   os.Environ(),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{},
	}
	child, _, err := limited.Start(argv[0], argv, attr, l, limited.Mark{}) // inherits the mark of this process
	if err != nil {
		return 0, err
	}
	return child.Pid, nil
}

// mountProc mounts a /proc for the pid namespace. Later mounts outside still appear inside the namespace, but not the
// other way round.
func mountProc() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	return unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// dropNamespaceCapabilities drops the capabilities that an unprivileged user has in new namespaces.
func dropNamespaceCapabilities() error {
	if os.Geteuid() == 0 {
		return nil
	}
	return confine.ReduceCapabilities(0)
}

// releaseStdio closes the init's copies of the child's pipes, so that the host sees their end when the child closes
// them.
func releaseStdio() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close()
	for fd := range 3 {
		_ = unix.Dup3(int(null.Fd()), fd, 0)
	}
}

// awaitEnd waits until the host has ended. The host never writes here. It reads without package io, which would cost
// some hundred KiB of resident program pages.
func awaitEnd(host int) {
	for word := make([]byte, 1); ; {
		if n, err := unix.Read(host, word); n == 0 || err != nil && err != unix.EINTR {
			return
		}
	}
}

// reapUntil reaps processes until child has exited, and returns the child's status.
func reapUntil(child int) unix.WaitStatus {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if pid == child && (status.Exited() || status.Signaled()) || errors.Is(err, unix.ECHILD) {
			return status
		}
	}
}

func failureReport(stage string, err error) Report {
	r := Report{Stage: stage, Text: err.Error()}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		r.Errno = int(errno)
	}
	return r
}

func sendReport(host *os.File, r Report) { _ = json.NewEncoder(host).Encode(r) }
