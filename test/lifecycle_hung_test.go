package test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// hangsOnce is an extension whose first process hangs after the handshake.
func hangsOnce(string) {
	if _, err := os.Stat(filepath.Join(os.Getenv("EXTHOST_STATE_DIR"), "begun")); err == nil {
		processtest.Exit(hosttest.Extension().Main())
	}
	appendState("begun", "x")
	fmt.Println(`{"jsonrpc":"2.0","id":0,"result":{"tools":[{"name":"echo"}]}}`)
	time.Sleep(time.Hour)
}

// TestSlowCallIsNamed: the call that an instance has had for more than 10 s is in the status and in the verdict, until
// it ends.
func TestSlowCallIsNamed(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{})
	ctx, end := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	calling.Go(func() {
		bot := exthost.CallOptions{Session: &protocol.Session{Caller: "bot"}}
		if _, err := h.CallWith(ctx, "ext_x_wait", nil, bot); protocol.KindOf(err) != protocol.Canceled {
			t.Errorf("the call: %v", err)
		}
	})
	defer calling.Wait()
	defer end()
	slow := func() []status.OpenCall { return hosttest.StatusOf(t, h, "x").Slow }
	hosttest.Eventually(t, "a slow call in the status", func() bool { return len(slow()) > 0 })
	if got := slow(); got[0].Tool != "ext_x_wait" || got[0].Caller != "bot" ||
		time.Since(got[0].Since) < 10*time.Second {
		t.Errorf("%+v", got)
	}
	const named = "; a call of ext_x_wait has been in flight for "
	if v := h.Status().Verdict; v.Word != status.Ready || !strings.Contains(v.Text, named) ||
		!strings.HasSuffix(v.Text, "s; next: exthost logs x") {
		t.Errorf("%+v", v)
	}
	end()
	calling.Wait()
	if got, v := slow(), h.Status().Verdict; len(got) > 0 || strings.Contains(v.Text, named) {
		t.Errorf("after its end: %+v, %s", got, v.Text)
	}
}

// TestHungExtensionIsReplaced has 16 callers of a hanging extension, with defaults except for a short call_timeout. It
// is replaced; status, events and log name what has stopped.
func TestHungExtensionIsReplaced(t *testing.T) {
	processtest.Leaks(t)
	var log lockedBuffer
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("hangsonce", "[runtime]\ncall_timeout = \"100ms\"\n")).
		Open(exthost.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	stopped := "it has stopped reading its stdin, where "
	if runtime.GOOS != "linux" {
		stopped = "" // the system does not tell
	}
	next := eavesdrop(t, h, status.EventState)
	first := hosttest.PidOf(t, h, "x")
	began := time.Now()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			_, err := h.Call(hosttest.Deadline(t), "ext_x_echo", nil)
			// for a late caller
			if kind := protocol.KindOf(err); kind != protocol.CallTimeout && kind != protocol.BreakerOpen {
				t.Errorf("a caller got %v", err)
			}
		})
	}
	wg.Wait()
	hosttest.Eventually(t, "the status says that it does not answer", func() bool {
		return strings.Contains(hosttest.StatusOf(t, h, "x").Instances[0].Doubt,
			"calls in a row had no answer, being pinged for ")
	})
	var reason string
	// the first start may still be reported
	for state := supervisor.State(""); state != supervisor.Ready || reason == ""; {
		e := next()
		if state = e.State.State; state == supervisor.Restarting {
			reason = e.State.Reason
		}
	}
	stormtest.Claim(t, "from the calls to the next process that is ready", 13*time.Second,
		func() (time.Duration, string) { return time.Since(began), "" })
	// on a busy machine, call_timeout is short for the next process too
	hosttest.Eventually(t, "the next process answers", func() bool {
		_, err := h.Call(hosttest.Deadline(t), "ext_x_echo", nil)
		kind := protocol.KindOf(err)
		if err != nil && kind != protocol.CallTimeout && kind != protocol.BreakerOpen {
			t.Fatalf("the next process: %v", err)
		}
		return err == nil
	})
	x := hosttest.StatusOf(t, h, "x")
	if x.Instances[0].PID == first || x.Instances[0].Doubt != "" || x.LastCrash == nil ||
		x.LastCrash.Reason != reason || x.LastCrash.Kind != protocol.CallTimeout {
		t.Errorf("status: %+v, %+v", x.Instances[0], x.LastCrash)
	}
	for _, words := range []string{"missed 2 pings of 5s and was killed", stopped} {
		if !strings.Contains(reason, words) {
			t.Errorf("the event says %q, not %q", reason, words)
		}
	}
	for _, words := range []string{
		"extension does not answer: it missed a ping",
		"died, and will be restarted",
		stopped,
	} {
		if !strings.Contains(log.String(), words) {
			t.Errorf("the log does not say %q:\n%s", words, log.String())
		}
	}
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
