package relay

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// detached returns attributes that start a process outside of the client's console and process group.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		HideWindow:    true,
		CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS,
	}
}

// becomeStderr makes f this process's stderr, so that Go runtime crashes are logged.
func becomeStderr(f *os.File) error {
	return windows.SetStdHandle(windows.STD_ERROR_HANDLE, windows.Handle(f.Fd()))
}

// leaveStdin does nothing: on this system the host does not inherit the turn.
func leaveStdin() {}
