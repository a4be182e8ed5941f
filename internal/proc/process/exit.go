package process

import (
	"fmt"
	"os"
)

// Exit is the result of a process.
type Exit struct {
	Code       int    // exit status; -1 if a signal ended it
	Signal     string // such as "SIGKILL"; "" if it exited by itself
	CoreDumped bool
	Err        error // error of a failed wait; the other fields are then invalid
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

// String describes the exit: "exit status 3", "killed by SIGSEGV (core dumped)".
func (e Exit) String() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("end unknown: %v", e.Err)
	case e.Signal == "":
		return fmt.Sprintf("exit status %d%s", e.Code, launched[e.Code])
	case e.CoreDumped:
		return fmt.Sprintf("killed by %s (core dumped)", e.Signal)
	}
	return "killed by " + e.Signal
}

func exitOf(state *os.ProcessState, err error) Exit {
	if err != nil {
		return Exit{Code: -1, Err: err}
	}
	e := Exit{Code: state.ExitCode()}
	e.Signal, e.CoreDumped = endedBy(state)
	return e
}
