package console

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropTyped discards pending input, such as the next line of a pasted text. Input typed before a question is no answer
// to it.
func dropTyped(tty *os.File) {
	_ = unix.IoctlSetInt(int(tty.Fd()), unix.TCFLSH, unix.TCIFLUSH) // cannot fail for a terminal
}
