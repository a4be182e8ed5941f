package console

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// dropTyped discards pending input, such as the next line of a pasted text. Input typed before a question is no answer
// to it.
func dropTyped(tty *os.File) {
	_ = unix.IoctlSetInt(int(tty.Fd()), unix.TCFLSH, unix.TCIFLUSH) // cannot fail for a terminal
}

// typedPoll is how often awaitTyped looks whether to go on.
const typedPoll = 100 * time.Millisecond

// awaitTyped waits until there is input to read, or its end. The error is the cause of the end of ctx.
func awaitTyped(ctx context.Context, tty *os.File) error {
	ready := []unix.PollFd{{Fd: int32(tty.Fd()), Events: unix.POLLIN}}
	for ctx.Err() == nil {
		if n, err := unix.Poll(ready, int(typedPoll.Milliseconds())); n > 0 || err != nil && err != unix.EINTR {
			return nil // the read reports what is wrong
		}
	}
	return context.Cause(ctx)
}
