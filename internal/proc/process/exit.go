package process

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// Exit is the result of a process.
type Exit struct {
	Code       int    // exit status; -1 if a signal ended it
	Signal     string // such as "SIGKILL"; "" if it exited by itself
	CoreDumped bool
	By         string // what sent the signal, as the end of a sentence; "" for the host, and for a fault of the process
	Err        error  // error of a failed wait; the other fields are then invalid
}

// Success reports whether the process exited with status 0.
func (e Exit) Success() bool { return e.Code == 0 && e.Signal == "" && e.Err == nil }

// launched explains the exit statuses by which shells, npx and other launchers report that a signal ended their child.
var launched = map[int]string{
	129: " (of a process that SIGHUP ended)",
	130: " (of a process that SIGINT ended)",
	131: " (of a process that SIGQUIT ended)",
	132: " (of a process that SIGILL ended)",
	134: " (of a process that SIGABRT ended)",
	135: " (of a process that SIGBUS ended)",
	136: " (of a process that SIGFPE ended)",
	137: " (of a process that SIGKILL ended)",
	139: " (of a process that SIGSEGV ended)",
	141: " (of a process that SIGPIPE ended)",
	143: " (of a process that SIGTERM ended)",
}

// String describes the exit: "exit status 3", "killed by SIGSEGV (core dumped)", "killed by SIGKILL, which the host did
// not send".
func (e Exit) String() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("end unknown: %v", e.Err)
	case e.Signal == "":
		return fmt.Sprintf("exit status %d%s%s", e.Code, launched[e.Code], e.By)
	case e.CoreDumped:
		return fmt.Sprintf("killed by %s (core dumped)", e.Signal)
	}
	return "killed by " + e.Signal + e.By
}

// signalled is the status by which a launcher reports that SIGKILL ended its child.
const signalled = 137

// sender describes what ended the process with a signal: a limit of s, the kernel for lack of memory, or another
// program. used is the processor time of the process.
func (p *Process) sender(e Exit, used time.Duration) string {
	name := e.Signal
	if e.Code == signalled {
		name = "SIGKILL"
	}
	limit := p.limits.CPUTime
	switch {
	case e.Err != nil || p.killed.Load():
		return ""
	case limit > 0 && (name == "SIGXCPU" || name == "SIGKILL" && used >= limit):
		return fmt.Sprintf(", because it reached its limit cpu_time (%v)", limit)
	case p.limits.FileSize > 0 && name == "SIGXFSZ":
		return fmt.Sprintf(", because it reached its limit file_size (%d bytes)", p.limits.FileSize)
	case name == "SIGKILL" && oomKills() > p.oomKills:
		return ", by the kernel, which was out of memory"
	case slices.Contains([]string{"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"}, e.Signal):
		return ", which the host did not send"
	}
	return ""
}

func exitOf(state *os.ProcessState, err error) Exit {
	if err != nil {
		return Exit{Code: -1, Err: err}
	}
	e := Exit{Code: state.ExitCode()}
	e.Signal, e.CoreDumped = endedBy(state)
	return e
}
