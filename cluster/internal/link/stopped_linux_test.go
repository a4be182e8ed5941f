package link

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/natstest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// The server of a link is stopped with SIGSTOP.
func TestServerStopped(t *testing.T) {
	processtest.Leaks(t)
	specs := natstest.Knowing(t, 3)
	processes := make(map[string]*processtest.Process)
	for _, s := range specs {
		processes[s.URL()] = s.Spawn(t)
	}
	a, b := connect(t, "a", nil, specs[0], specs[1]), connect(t, "b", nil, specs[2])
	meet(t, a, b)
	stopped := processes[a.Server()].Cmd.Process
	if err := stopped.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var state syscall.WaitStatus
	if _, err := syscall.Wait4(stopped.Pid, &state, syscall.WUNTRACED, nil); err != nil || !state.Stopped() {
		t.Fatalf("the server is not stopped: %v, %v", state, err)
	}
	start := time.Now()
	if err := a.Send(b.self, "", []byte("stuck")); err != nil {
		t.Fatal(err)
	}
	meet(t, a, b)
	t.Logf("messages pass over another server after %v", time.Since(start))
	if err := stopped.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	until(t, "what was stuck in the server comes late",
		func() bool { return len(b.got(&b.messages, "a 0 stuck")) == 1 })
	meet(t, a, b)
}

// The server of a link is stopped while the link sends more than the connection buffers.
func TestStoppedServerIsFull(t *testing.T) {
	processtest.Leaks(t)
	spec := natstest.Knowing(t, 3)[0]
	server := spec.Spawn(t).Cmd.Process
	a := connect(t, "a", nil, spec)
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for range 64 {
		if err := a.Send(a.self, "", make([]byte, 512<<10)); err != nil {
			break
		}
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("the link noticed after %v", took)
	}
	if err := server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// Close returns when its context ends, even if a write to a stopped server blocks.
func TestCloseBehindAFullServer(t *testing.T) {
	processtest.Leaks(t)
	spec := natstest.Knowing(t, 3)[0]
	server := spec.Spawn(t).Cmd.Process
	a := connect(t, "a", nil, spec)
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	sent, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for a.Send(a.self, "", make([]byte, 512<<10)) == nil {
			sent <- struct{}{}
		}
	}()
	for waits := false; !waits; {
		select {
		case <-sent:
		case <-time.After(200 * time.Millisecond):
			waits = true
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_ = a.Close(ctx)
	if took := time.Since(start); took > flushBound {
		t.Errorf("Close took %v", took)
	}
	go func() {
		for range sent {
		}
	}()
	<-ended
	close(sent)
	if err := server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
