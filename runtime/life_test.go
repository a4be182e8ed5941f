//go:build unix

package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/protocol"
)

func TestChildThatIgnoresEverythingIsKilled(t *testing.T) {
	fault(t)
	s := spec(t, "init echo; ignore; hang")
	s.Options.ShutdownGrace = 10 * time.Millisecond
	r := start(t, s)
	if err := r.stop(); err != nil {
		t.Errorf("Serve = %v after a stop", err)
	}
	if r.Info().PID != 0 {
		t.Error("the process is said to live")
	}
}

// TestFarewell checks the messages before the end of stdin. ShutdownGrace is longer than patience, so the test fails if
// stop waits for all of the grace.
func TestFarewell(t *testing.T) {
	fault(t)
	s := spec(t, "init echo; read; dump; eof; err bye")
	s.Options.ShutdownGrace = 10 * patience
	r := start(t, s)
	if err := r.stop(); err != nil {
		t.Errorf("Serve = %v after a stop", err)
	}
	want := []string{
		`{"jsonrpc":"2.0","id":0,"method":"shutdown","params":{"reason":"the host stops the extension"}}`,
		"bye",
	}
	if got := r.Info().Stderr; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the child heard %q, want %q", got, want)
	}
	_, err := r.callTool()
	wantKind(t, err, protocol.ShuttingDown)
}

func TestCallInFlightAtStop(t *testing.T) {
	fault(t)
	s, m := metAt(t, `init echo; read; read; sync asked; eof; answer "in time"; exit 0`)
	s.Options.ShutdownGrace = 10 * patience
	r := start(t, s)
	answered := r.goCall(context.Background(), &Request{Method: "hooks/first", Params: json.RawMessage(`{}`)})
	unanswered := r.goCall(context.Background(), &Request{Method: "hooks/second", Params: json.RawMessage(`{}`)})
	goOn := m.await("asked")
	r.cancel()
	goOn()
	outcomes := []future{await(t, answered), await(t, unanswered)}
	if outcomes[0].err != nil { // the order of the two is random
		outcomes[0], outcomes[1] = outcomes[1], outcomes[0]
	}
	if string(outcomes[0].raw) != `"in time"` {
		t.Errorf("the answered call got %s, %v", outcomes[0].raw, outcomes[0].err)
	}
	if fault := wantKind(t, outcomes[1].err, protocol.ShuttingDown); fault.Outcome != "unknown" {
		t.Errorf("outcome = %q, want unknown", fault.Outcome)
	} else if fault.Message != errTestStops.Error() {
		t.Errorf("message = %q, want the cause of the stop", fault.Message)
	}
}

func TestStopDuringHandshake(t *testing.T) {
	fault(t)
	s, m := metAt(t, "read; sync asked; eof")
	s.Options.ShutdownGrace = 10 * patience
	r := launch(t, s)
	m.await("asked")()
	if err := r.stop(); err != nil {
		t.Errorf("Serve = %v after a stop", err)
	}
}

func TestKillDuringStop(t *testing.T) {
	fault(t)
	s, m := metAt(t, "init echo; ignore; read; sync told; hang")
	s.Options.ShutdownGrace = 10 * patience
	r := start(t, s)
	r.cancel()
	m.await("told")()
	r.Kill()
	if err := r.stop(); err != nil {
		t.Errorf("Serve = %v after a stop", err)
	}
}

func TestKilledUnderLoad(t *testing.T) {
	fault(t)
	s, m := metAt(t, "init echo; read; read; read; read; sync full; hang")
	r := start(t, s)
	var calls [4]<-chan future
	for i := range calls {
		calls[i] = r.goCall(context.Background(),
			&Request{Method: protocol.MethodToolsCall, Params: json.RawMessage(`{"name":"echo"}`)})
	}
	m.await("full")()
	if err := syscall.Kill(r.Info().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		fault := wantKind(t, await(t, c).err, protocol.ChildExited)
		if fault.Outcome != "unknown" || fault.Evidence.Signal != "SIGKILL" {
			t.Errorf("outcome %q, evidence %+v", fault.Outcome, fault.Evidence)
		}
	}
	r.end(protocol.ChildExited)
	_, err := r.callTool()
	if fault := wantKind(t, err, protocol.ChildExited); fault.Outcome != "" {
		t.Errorf("outcome = %q for a call that was never sent", fault.Outcome)
	}
}

func TestHangingChildIsEnded(t *testing.T) {
	fault(t)
	for name, edit := range map[string]func(*Spec){
		"health interval": func(s *Spec) { s.Options.HealthInterval = 50 * time.Millisecond },
		"recycle on hang": func(s *Spec) {
			s.Options.RecycleOnHang, s.Options.CallTimeout = true, 50*time.Millisecond
			s.pingTimeout = 50 * time.Millisecond
		},
		"default": func(s *Spec) { s.Options.CallTimeout, s.pingTimeout = 100*time.Millisecond, time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(t, "init echo; hang")
			edit(&s)
			r := start(t, s)
			for range maxUnanswered {
				_, err := r.callTool()
				wantKind(t, err, protocol.CallTimeout)
			}
			wantContains(t, r.end(protocol.CallTimeout).Error(), "missed 2 pings")
		})
	}
}

func TestHealthyStaysUp(t *testing.T) {
	fault(t)
	s, m := metAt(t, "init echo; read; answer; read; answer; sync pinged; echo")
	s.Options.HealthInterval = 500 * time.Millisecond // also bounds a ping, even on a busy machine
	r := start(t, s)
	m.await("pinged")()
	if _, err := r.callTool(); err != nil {
		t.Error(err)
	}
}

func TestCancellation(t *testing.T) {
	fault(t)
	s, m := metAt(t, "init echo; read; sync asked; read; dump; sync told; read; sync asked; hang")
	s.Options.MaxInFlight = 2
	r := start(t, s)
	for _, last := range []bool{false, true} {
		ctx, cancel := context.WithCancel(context.Background())
		call := r.goCall(ctx, &Request{Method: protocol.MethodToolsCall, Params: json.RawMessage(`{"name":"echo"}`)})
		goOn := m.await("asked")
		cancel()
		if fault := wantKind(t, await(t, call).err, protocol.Canceled); fault.Outcome != "unknown" {
			t.Errorf("outcome = %q, want unknown", fault.Outcome)
		}
		goOn()
		if !last {
			m.await("told")()
		}
	}
	wantContains(t, r.end(protocol.Overloaded).Error(), "owed 2 answers") // that is, MaxInFlight
	wantContains(t, stderrOf(r), `"method":"notifications/cancelled"`, `"requestId":1`)
}

func TestStderrFlood(t *testing.T) {
	fault(t)
	s := spec(t, `init echo; flood 200000 all work and no play\n; echo`)
	log := logTo(&s)
	r := start(t, s)
	if _, err := r.callTool(); err != nil {
		t.Error(err)
	}
	r.stop()
	if n := strings.Count(log.String(), "all work"); n == 0 || n > 2000 {
		t.Errorf("%d lines logged, want some and not all", n)
	}
	wantContains(t, log.String(), "stream=stderr", "dropped=")
}

func TestConcurrentCalls(t *testing.T) {
	fault(t)
	r := start(t, spec(t, "init echo; echo"))
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for j := range 20 {
				mark := fmt.Sprintf(`"call":"%d-%d"`, i, j)
				raw, err := r.request(protocol.MethodToolsCall, `{"name":"echo","arguments":{`+mark+`}}`)
				if err != nil || !strings.Contains(string(raw), mark) {
					t.Errorf("got %s, %v", raw, err)
				}
			}
		})
	}
	wg.Wait()
	if i := r.Info(); i.Calls != 640 || i.InFlight != 0 {
		t.Errorf("info = %+v", i)
	}
}

// The end of the last call ends the drain. If the caller canceled that call, the child gets the cancellation before it
// is stopped.
func TestCancelledAtTheStop(t *testing.T) {
	fault(t)
	for range 20 {
		s, m := metAt(t, "init echo; read; sync asked; read; read; dump; eof")
		r := start(t, s)
		ctx, leave := context.WithCancel(context.Background())
		left := make(chan error, 1)
		go func() {
			_, err := r.Call(ctx, &Request{Method: "hooks/x"})
			r.cancel() // like the supervisor, on the caller's goroutine
			left <- err
		}()
		m.await("asked")()
		leave()
		wantKind(t, await(t, left), protocol.Canceled)
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		wantContains(t, stderrOf(r), `"method":"notifications/cancelled"`)
	}
}
