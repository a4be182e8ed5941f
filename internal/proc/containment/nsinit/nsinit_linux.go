// Package nsinit is the first process of a pid namespace: this program again, which starts a child there.
package nsinit

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
	"github.com/exthost/exthost/internal/proc/containment/resident"
	"github.com/exthost/exthost/internal/proc/sandbox/confine"
)

// Name is the argv[0] of an init. The number is the version of its arguments and reports.
const Name = "exthost-init-4"

// A process with that name is an init, and nothing else. It runs here, because the packages of a host take
// five times as long to initialise as an init needs to start its child: Go initialises a package as soon
// as those that it imports are, and this one imports little.
func init() {
	if len(os.Args) > 0 && os.Args[0] == Name {
		run(os.NewFile(3, "host"), os.Args[1:])
		unix.Exit(0)
	}
}

// Terms are what an init is told about its child.
type Terms struct {
	Limits        limited.Limits
	Mark          uint64 // see package sweep; 0 for none
	NewPrivileges bool
	Sandbox       *Sandbox // nil for none
}

// Sandbox is that of a child.
type Sandbox struct {
	Rules *confine.Rules
	// Network brings up the loopback interface of the network namespace. Proxy listens there, sends the
	// listener to the host, and has programs use it by their environment.
	Network, Proxy bool
}

// Report is a message of an init to the host: one after the start of the child, or its
// failure, and one after the exit of the child.
type Report struct {
	Stage  string `json:"stage,omitempty"` // the stage that failed; "" if none
	Errno  int    `json:"errno,omitempty"`
	Text   string `json:"text,omitempty"`
	Status *int   `json:"status,omitempty"` // the wait status
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

// run is an init. It starts the child, reaps orphans, and ends with the child or with the host; the
// kernel then kills every process of the namespace. args are the terms and the child's argv.
func run(host *os.File, args []string) {
	runtime.LockOSThread() // the child inherits the privileges of this thread
	unix.CloseOnExec(int(host.Fd()))
	// Signals from the host go to the whole group. Those that would end a Go program are caught, not
	// ignored, because the child would inherit that they are ignored. Each costs a change of threads.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM)
	var t Terms
	if len(args) < 2 || json.Unmarshal([]byte(args[0]), &t) != nil {
		return
	}
	if err := mountProc(); err != nil {
		sendReport(host, failureReport(StageProc, err))
		return
	}
	if err := limited.BoundProcesses(t.Limits.Processes); err != nil {
		sendReport(host, failureReport(StageProcesses, err))
		return
	}
	t.Limits.Processes = 0
	if t.Sandbox != nil && t.Sandbox.Network {
		if err := ownNetwork(host, t.Sandbox.Proxy); err != nil {
			sendReport(host, failureReport(StageNetwork, err))
			return
		}
	}
	if t.Sandbox != nil && t.Sandbox.Rules.Writes { // a program that writes nowhere changes no attributes either
		if err := readOnlyBut(t.Sandbox.Rules.Files); err != nil {
			sendReport(host, failureReport(StageSandbox, err))
			return
		}
	}
	if err := dropNamespaceCapabilities(); err != nil {
		sendReport(host, failureReport(StageProc, err))
		return
	}
	limited.SetDefaults(0)
	if err := limited.SetMark(0, t.Mark); err != nil {
		sendReport(host, failureReport(StagePrivileges, err))
		return
	}
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // its other threads keep their privileges
	if !t.NewPrivileges {
		kept := confine.KeptCapabilities
		if t.Sandbox != nil {
			kept = confine.ConfinedCapabilities
		}
		if _, err := confine.Privileges(kept); err != nil {
			sendReport(host, failureReport(StagePrivileges, err))
			return
		}
	}
	if t.Sandbox != nil {
		if err := t.Sandbox.Rules.Apply(); err != nil {
			sendReport(host, failureReport(StageSandbox, err))
			return
		}
	}
	child, err := start(args[1:], t.Limits)
	if err != nil {
		sendReport(host, failureReport(StageStart, err))
		return
	}
	releaseStdio()
	sendReport(host, Report{})
	go func() {
		resident.Unmap() // not on the thread of the child, whose sandbox may hide /proc
		awaitEnd(int(host.Fd()))
		unix.Exit(1)
	}()
	status := int(reapUntil(child))
	sendReport(host, Report{Status: &status})
}

// ListenerMark is the first byte of an init that sends the listener of its child's proxy. A report
// begins with another.
const ListenerMark = '!'

// ownNetwork brings up the loopback interface of this network namespace, and for a proxy listens there,
// sends the listener to the host, and has programs use it by their environment.
func ownNetwork(host *os.File, proxy bool) error {
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
	if !proxy {
		return nil
	}
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
		unix.Listen(fd, unix.SOMAXCONN)); err != nil {
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

// useProxy sets the variables by which programs find their proxy.
func useProxy(port int) {
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"} {
		os.Setenv(name, address)
		os.Setenv(strings.ToLower(name), address)
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		os.Setenv(name, "localhost,127.0.0.1,::1")
	}
	os.Setenv("NODE_USE_ENV_PROXY", "1") // fetch of Node.js 24 looks at the others then
}

// start starts the child and returns its pid.
func start(argv []string, l limited.Limits) (pid int, err error) {
	if l == (limited.Limits{}) { // os would start another process first, to learn what the kernel can
		// has what SetDefaults set here
		return syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	}
	attr := &os.ProcAttr{
		Env:   os.Environ(),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{},
	}
	child, _, err := limited.Start(argv[0], argv, attr, l, limited.Mark{}) // has the mark of this process
	if err != nil {
		return 0, err
	}
	return child.Pid, nil
}

// mountProc mounts a /proc for the pid namespace. Later mounts outside the namespace still appear
// inside; mounts inside stay inside.
func mountProc() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	return unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// dropNamespaceCapabilities drops the capabilities that an ordinary user has in the namespaces.
func dropNamespaceCapabilities() error {
	if os.Geteuid() == 0 {
		return nil
	}
	return confine.ReduceCapabilities(0)
}

// releaseStdio closes the init's copies of the child's pipes, so that the pipes end when
// the child closes them.
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

// awaitEnd returns when the host has ended, which says nothing. It reads without package io, for which
// the kernel would map some hundred KiB of the program again.
func awaitEnd(host int) {
	for word := make([]byte, 1); ; {
		if n, err := unix.Read(host, word); n == 0 || err != nil && err != unix.EINTR {
			return
		}
	}
}

// reapUntil reaps processes until child has exited, and returns its status.
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
