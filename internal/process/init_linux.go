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

// initName is the argv[0] of the init of a pid namespace, by which [Reenter] knows
// that it is one. The number is that of what it is told and what it says.
const initName = "exthost-init-1"

// initReport is what an init says to the host: one when the child was started, or
// could not be, and one when it has ended.
type initReport struct {
	Stage  string `json:"stage,omitempty"` // what failed: one of the stages; "" when nothing did
	Errno  int    `json:"errno,omitempty"`
	Text   string `json:"text,omitempty"`
	Status *int   `json:"status,omitempty"` // as wait reports it
}

// What an init does before the child runs.
const (
	stageProc  = "mount a /proc of its own"
	stageStart = "fork/exec"
)

// initMain is the first process of a pid namespace: it starts the child, buries
// whatever is orphaned there, and ends with the child or with the host, which takes
// every process of the namespace with it. args are the limits and the child's argv.
func initMain(host *os.File, args []string) {
	runtime.LockOSThread() // the thread whose rights the child gets
	unix.CloseOnExec(int(host.Fd()))
	debug.SetGCPercent(10)
	// Caught, since the child would inherit what is ignored. What the host sends is
	// sent to the whole group.
	signal.Notify(make(chan os.Signal, 1))
	var l Limits
	if len(args) < 2 || json.Unmarshal([]byte(args[0]), &l) != nil {
		return
	}
	if err := ownProc(); err != nil {
		say(host, failure(stageProc, err))
		return
	}
	tame(0)
	child, err := startProcess(args[1], args[1:], &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{},
	}, l)
	if err != nil {
		say(host, failure(stageStart, err))
		return
	}
	letGo()
	say(host, initReport{})
	go func() {
		_, _ = io.Copy(io.Discard, host) // ends with the host
		unix.Exit(1)
	}()
	status := int(buryAll(child.Pid))
	say(host, initReport{Status: &status})
}

// ownProc gives the namespace a /proc that shows its processes under the ids that
// they know, and gives up the right to. What is mounted outside later still
// arrives; what is mounted here stays here.
func ownProc() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		return nil // has what root has, as without a namespace
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}

// letGo leaves the child's pipes to the child, so that their ends are its doing.
func letGo() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close()
	for fd := range 3 {
		_ = unix.Dup3(int(null.Fd()), fd, 0)
	}
}

// buryAll reaps until child is among the dead, and returns how it ended.
func buryAll(child int) unix.WaitStatus {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if pid == child && (status.Exited() || status.Signaled()) || errors.Is(err, unix.ECHILD) {
			return status
		}
	}
}

func failure(stage string, err error) initReport {
	r := initReport{Stage: stage, Text: err.Error()}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		r.Errno = int(errno)
	}
	return r
}

func say(host *os.File, r initReport) { _ = json.NewEncoder(host).Encode(r) }
