package console

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropTyped drops what was typed before a question, such as the next line of a pasted text: it
// is no answer.
func dropTyped(tty *os.File) {
	_ = unix.IoctlSetInt(int(tty.Fd()), unix.TCFLSH, unix.TCIFLUSH) // of a terminal it cannot fail
}
