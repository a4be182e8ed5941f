package process

import (
	"fmt"
	"os"
)

// Exit is the result of a process.
type Exit struct {
	Code       int    // exit status; -1 when a signal ended it
	Signal     string // "SIGKILL", …; "" when it exited by itself
	CoreDumped bool
	Err        error // the error of a failed wait; then the other fields are not valid
}

// Success reports whether the process exited with status 0.
func (e Exit) Success() bool { return e.Code == 0 && e.Signal == "" && e.Err == nil }

// String describes the exit: "exit status 3", "killed by SIGSEGV (core dumped)".
func (e Exit) String() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("end unknown: %v", e.Err)
	case e.Signal == "":
		return fmt.Sprintf("exit status %d", e.Code)
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
