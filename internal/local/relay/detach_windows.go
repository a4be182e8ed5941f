package relay

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// detached starts a process without the console and outside of the group of the client.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		HideWindow:    true,
		CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS,
	}
}

// becomeStderr makes f the stderr of this process, for the last words of the Go runtime.
func becomeStderr(f *os.File) error {
	return windows.SetStdHandle(windows.STD_ERROR_HANDLE, windows.Handle(f.Fd()))
}

// leaveStdin does nothing: the turn is that of the relay alone on this system.
func leaveStdin() {}
