package runtime

import (
	"context"
	"encoding/json"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/protocol"
)

// TestStallStorm has 16 callers of a server of the official SDK, in each revision. If a call is not answered, the test
// reports which side has stopped, with the stacks of both.
func TestStallStorm(t *testing.T) {
	processtest.Leaks(t)
	for _, version := range []string{protocol.MCP20251125, protocol.MCP20260728} {
		s := mcpSpec(t, "mcp "+version, version)
		s.Env = append(s.Env, "GOTRACEBACK=all")
		s.Options.CallTimeout = patience
		r := start(t, s)
		c := r.Instance.(*StdioRuntime).child.Load()
		var left atomic.Int64
		left.Store(int64(stormtest.Sized(1000, 300_000)))
		var once sync.Once
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for left.Add(-1) >= 0 && !t.Failed() {
					_, err := r.Call(context.Background(),
						&Request{
							Method: protocol.MethodToolsCall,
							Params: json.RawMessage(`{"name":"echo","arguments":{}}`),
						})
					if err != nil {
						once.Do(func() { explainStall(t, r, c.culprit(c.newDoubt(1)), err) })
					}
				}
			})
		}
		wg.Wait()
		r.stop()
	}
}

// explainStall fails the test. On SIGQUIT the child prints its stacks and ends.
func explainStall(t *testing.T, r *trial, culprit string, err error) {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:goruntime.Stack(stacks, true)]
	_ = syscall.Kill(r.Info().PID, syscall.SIGQUIT)
	eventually(t, func() bool { return strings.Contains(stderrOf(r), "goroutine ") || r.Info().PID == 0 })
	t.Errorf("%v: %s\n%s\n\nthe child:\n%s", err, culprit, stacks, stderrOf(r))
}
