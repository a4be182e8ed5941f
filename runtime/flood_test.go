//go:build unix

package runtime

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/exthost/exthost/protocol"
)

// A flood is read at a limited rate. An answer behind the flood reaches the caller even if the child exits before it is
// read.
func TestAnswerBehindALastFlood(t *testing.T) {
	fault(t)
	const flood = 8000 // about as many notifications as the pipe and the reader hold
	r := start(t, spec(t, "init echo; read; half "+strings.Repeat(`{"method":"n"}`+"\n",
		flood)+`; say; answer "true"; exit 3`))
	raw, err := r.callTool()
	if err != nil || !strings.Contains(string(raw), "true") {
		t.Errorf("got %s, %v", raw, err)
	}
	wantContains(t, r.end(protocol.ChildExited).Error(), "exit status 3")
}

// TestLongRequestsOfAChildAreBounded has a child send requests of nearly the maximum length to a host that does not
// answer. The host accepts a few of the requests, refuses the others, and continues to read.
func TestLongRequestsOfAChildAreBounded(t *testing.T) {
	fault(t)
	var held atomic.Int64
	answer := make(chan struct{})
	s := spec(t, `init echo; read; ask 8 15000000 3; answer "true"; echo`)
	s.Incoming = func(ctx context.Context, _ string, params json.RawMessage, _ bool) (json.RawMessage, error) {
		held.Add(int64(len(params)))
		select {
		case <-answer:
		case <-ctx.Done():
		}
		return json.RawMessage("{}"), nil
	}
	s.Options.CallTimeout = patience // the child writes 120 MB
	r := start(t, s)
	_, err := r.callTool()
	if bytes := held.Load(); err != nil || bytes > 80_000_000 {
		t.Errorf("the host holds %d bytes of requests; %v", bytes, err)
	}
	close(answer)
	if raw, err := r.callTool(); err != nil || !strings.Contains(string(raw), "echo") {
		t.Errorf("the next call got %s, %v", raw, err)
	}
}
