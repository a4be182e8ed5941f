package ndjson

import (
	"os"
	"os/signal"
	"syscall"
)

// IgnoreBrokenPipes keeps a write to a closed stdout from killing the process, until restore is called.
func IgnoreBrokenPipes() (restore func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}
