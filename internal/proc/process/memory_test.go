package process

import (
	"context"
	"io"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// The memory of a session is the sum over its processes.
func TestSessionMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux is asked")
	}
	processtest.Leaks(t)
	p, err := Start(context.Background(),
		Spec{Path: "/bin/sh", Args: []string{"-c", "sleep 60 & echo up; wait"}, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(p.Stdout, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if all := SessionMemory(); all[p.PID()] < 100<<10 {
		t.Errorf("sh and its child hold %d bytes, of %d sessions", all[p.PID()], len(all))
	}
	p.Kill()
	<-p.Done()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); SessionMemory()[p.PID()] > 0; <-tick.C { // the killed child of sh takes a moment to end
		if time.Since(start) > patience {
			t.Fatalf("the dead hold %d bytes", SessionMemory()[p.PID()])
		}
	}
	if Memory() < 1<<20 {
		t.Errorf("this process holds %d bytes", Memory())
	}
}

func BenchmarkSessionMemory(b *testing.B) {
	for b.Loop() {
		SessionMemory()
	}
}
