package process

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"
)

// initName is the argv[0] of the init of a pid namespace, which [Reenter] recognizes. The
// number is the version of its arguments and reports.
const initName = "exthost-init-3"

// initReport is a message of an init to the host: one after the start of the child, or its
// failure, and one after the exit of the child.
type initReport struct {
	Stage  string `json:"stage,omitempty"` // the stage that failed; "" if none
	Errno  int    `json:"errno,omitempty"`
	Text   string `json:"text,omitempty"`
	Status *int   `json:"status,omitempty"` // the wait status
}

// The stages of an init that can fail.
const (
	stageProc       = "mount a /proc of its own"
	stageProcesses  = "limit its processes"
	stagePrivileges = "give up privileges"
	stageSandbox    = "confine"
	stageNetwork    = "set up its network"
	stageStart      = "fork/exec"
)

// initMain is the first process of a pid namespace. It starts the child, reaps orphans, and
// ends with the child or with the host; the kernel then kills every process of the
// namespace. args are the terms and the child's argv.
func initMain(host *os.File, args []string) {
	runtime.LockOSThread() // the child inherits the privileges of this thread
	unix.CloseOnExec(int(host.Fd()))
	debug.SetGCPercent(10)
	// Signals from the host go to the whole group. They are caught, not ignored, because
	// the child would inherit that they are ignored.
	signal.Notify(make(chan os.Signal, 1))
	var t terms
	if len(args) < 2 || json.Unmarshal([]byte(args[0]), &t) != nil {
		return
	}
	if err := mountProc(); err != nil {
		sendReport(host, failureReport(stageProc, err))
		return
	}
	if err := boundProcesses(t.Limits.Processes); err != nil {
		sendReport(host, failureReport(stageProcesses, err))
		return
	}
	t.Limits.Processes = 0
	if t.Sandbox.Namespaced() {
		if err := ownNetwork(host, t.Sandbox); err != nil {
			sendReport(host, failureReport(stageNetwork, err))
			return
		}
	}
	if err := dropNamespaceCapabilities(); err != nil {
		sendReport(host, failureReport(stageProc, err))
		return
	}
	setProcessDefaults(0)
	Conceal() // its other threads keep their privileges
	if !t.NewPrivileges {
		kept := keptCapabilities
		if t.Sandbox != nil {
			kept = confinedCapabilities
		}
		if err := giveUpPrivileges(kept); err != nil {
			sendReport(host, failureReport(stagePrivileges, err))
			return
		}
	}
	if t.Sandbox != nil {
		t.Sandbox.OwnProc, t.Sandbox.OwnNet = true, true
		if err := t.Sandbox.Confine(args[1]); err != nil {
			sendReport(host, failureReport(stageSandbox, err))
			return
		}
	}
	child, err := startProcess(args[1], args[1:], &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{},
	}, t.Limits)
	if err != nil {
		sendReport(host, failureReport(stageStart, err))
		return
	}
	releaseStdio()
	sendReport(host, initReport{})
	go func() {
		_, _ = io.Copy(io.Discard, host) // ends with the host
		unix.Exit(1)
	}()
	status := int(reapUntil(child.Pid))
	sendReport(host, initReport{Status: &status})
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
	return reduceCapabilities(0)
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

func failureReport(stage string, err error) initReport {
	r := initReport{Stage: stage, Text: err.Error()}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		r.Errno = int(errno)
	}
	return r
}

func sendReport(host *os.File, r initReport) { _ = json.NewEncoder(host).Encode(r) }
