package test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/recording/faults"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// An injected crash kills only the process of its own call.
func TestInjectedCrashOfExec(t *testing.T) {
	processtest.Leaks(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := hosttest.NewFolder(t).Add("x",
		"[transport]\nkind = \"exec\"\ncommand = \"cat\"\n[[tools]]\nname = \"read\"\ncommand = [\"cat\", \""+fifo+
			"\"]\n[[tools]]\nname = \"crash\"\n")
	c := cfg.Config()
	c.Inject = []faults.Rule{{Tool: "*_crash", Crash: 1}}
	h := cfg.OpenWith(c, exthost.Options{})
	type outcome struct {
		text string
		err  error
	}
	ended := make(chan outcome, 1)
	go func() {
		result, err := h.Call(hosttest.Deadline(t), "ext_x_read", nil)
		ended <- outcome{result.Text(), err}
	}()
	pipe, err := os.OpenFile(fifo, os.O_WRONLY, 0) // blocks until the process reads
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Call(hosttest.Deadline(t), "ext_x_crash", nil); protocol.KindOf(err) != protocol.ChildExited {
		t.Errorf("the call that crashes: %v", err)
	}
	_, _ = pipe.WriteString("done")
	pipe.Close()
	if o := <-ended; o.err != nil || o.text != "done" {
		t.Errorf("the other call: %q, %v", o.text, o.err)
	}
}
