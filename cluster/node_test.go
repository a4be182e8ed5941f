package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// told records notifications to a caller.
type told struct {
	mu    sync.Mutex
	heard []string
}

func (c *told) Call(_ context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
	return nil, protocol.Errorf(protocol.ToolNotFound, "%s is not served", method)
}

func (c *told) Notify(_ context.Context, method string, params json.RawMessage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, method+" "+string(params))
	return nil
}

// Two hosts on one server list each other's shared tools. Calls, results of 4 MiB, progress and errors pass
// between them.
func TestTwoHosts(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	gpu := open(t, join(t, s.urls(), "gpu1", peers.AsMine), true)
	web := open(t, join(t, s.urls(), "web", peers.AsMine), false)
	awaitTool(t, web, "ext_gpu1_x_echo", true)
	args := `{"id":12345678901234567890,"unknown":[1.0,"\u2028"]}`
	result, err := web.Do(within(t),
		&protocol.Call{
			Method: protocol.MethodToolsCall,
			Params: json.RawMessage(`{"name":"ext_gpu1_x_echo","arguments":` + args + `}`),
		})
	if err != nil || !strings.Contains(string(result), args) {
		t.Fatalf("%s, %v", result, err)
	}
	long := bytes.Repeat([]byte("0123456789abcdef"), 4<<16)
	result, err = web.Do(within(t), &protocol.Call{
		Method: protocol.MethodToolsCall,
		Params: json.RawMessage(`{"name":"ext_gpu1_x_echo","arguments":{"long":"` + string(long) + `"}}`),
	})
	if err != nil || !bytes.Contains(result, long) {
		t.Errorf("4 MiB there and back: %d bytes, %v", len(result), err)
	}
	client := new(told)
	if _, err = web.Do(within(t), &protocol.Call{
		Method: protocol.MethodToolsCall,
		Client: client,
		Params: json.RawMessage(`{"name":"ext_gpu1_x_work","arguments":{},"_meta":{"progressToken":"p"}}`),
	}); err != nil || len(client.heard) != 3 {
		t.Errorf("progress: %q, %v", client.heard, err)
	}
	_, err = web.Call(within(t), "ext_gpu1_x_die", nil)
	if e, _ := errors.AsType[*protocol.Error](err); e == nil || e.Kind != protocol.ChildExited ||
		e.Outcome != "unknown" || !strings.Contains(e.Message, "gpu1") {
		t.Errorf("a process that died there: %#v", err)
	}
	c := web.Status().Cluster
	if c == nil || c.Node != "web" || len(c.Nodes) != 1 || c.Nodes[0].Name != "gpu1" ||
		c.Nodes[0].State != status.NodeReady || c.Nodes[0].Out != 4 || c.Nodes[0].Failed != 1 {
		t.Errorf("%+v", c)
	}
	if in := gpu.Status().Cluster.Nodes[0]; in.Name != "web" || in.In != 4 {
		t.Errorf("%+v", in)
	}
	if err := gpu.Close(); err != nil {
		t.Error(err)
	}
	awaitTool(t, web, "ext_gpu1_x_echo", false)
}

// noted returns the entries of a file, which may not exist.
func noted(t testing.TB, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return stormtest.WholeEntries(string(data))
}

// A call whose owner is killed is lost with an unknown outcome.
func TestCallOfAKilledOwnerIsLost(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	owner := startNode(t, s.urls(), "gpu1", peers.AsMine)
	web := open(t, join(t, s.urls(), "quick", peers.AsMine), false)
	awaitTool(t, web, "ext_gpu1_x_note", true)
	file := filepath.Join(t.TempDir(), "notes")
	outcome := make(chan error, 1)
	go func() {
		_, err := web.Call(context.Background(), "ext_gpu1_x_note",
			map[string]any{"file": file, "text": "a", "wait": true})
		outcome <- err
	}()
	eventually(t, "the call runs", func() bool { return len(noted(t, file)) == 1 })
	owner.Kill()
	err := <-outcome
	if e, _ := errors.AsType[*protocol.Error](err); e == nil || e.Kind != protocol.NodeLost || e.Outcome != "unknown" {
		t.Errorf("%#v", err)
	}
	_, err = web.Call(within(t), "ext_gpu1_x_note", map[string]any{"file": file, "text": "b"})
	if protocol.KindOf(err) != protocol.NotReady {
		t.Errorf("the next call: %v", err)
	}
	eventually(t, "the status says that the node is away", func() bool {
		x := web.Status().Extensions[0]
		return x.State == status.StateNotReady && strings.Contains(x.Reason, "gpu1")
	})
}

// A killed server costs no call: each gets its result over another server.
func TestKilledServerCostsNoCall(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 3)
	startNode(t, s.urls(), "gpu1", peers.AsMine)
	web := open(t, join(t, s.urls(), "web", peers.AsMine), false)
	awaitTool(t, web, "ext_gpu1_x_echo", true)
	l := load(t, web, "ext_gpu1_x_echo", 16)
	for i := range 3 {
		s.all[i].Kill()
		s.start(i)
		l.goesOn(100)
	}
	for text, n := range l.end() {
		if !strings.Contains(text, "did not get the call") { // all servers were unreachable for a moment
			t.Errorf("%d calls failed: %s", n, text)
		}
	}
}

// loading is a set of callers that call in sequence.
type loading struct {
	t       testing.TB
	callers sync.WaitGroup
	stop    chan struct{}

	mu     sync.Mutex // guards what follows
	done   int
	failed map[string]int // by error
}

// load starts n callers of a tool that call until end.
func load(t testing.TB, h *exthost.Host, tool string, n int) *loading {
	l := &loading{t: t, stop: make(chan struct{}), failed: make(map[string]int)}
	for range n {
		l.callers.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				_, err := h.Call(ctx, tool, map[string]any{"n": 1})
				cancel()
				l.mu.Lock()
				if l.done++; err != nil {
					l.failed[err.Error()]++
				}
				l.mu.Unlock()
			}
		})
	}
	return l
}

func (l *loading) calls() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done
}

// goesOn waits until n more calls have ended.
func (l *loading) goesOn(n int) {
	l.t.Helper()
	before := l.calls()
	eventually(l.t, "calls go on", func() bool { return l.calls() > before+n })
}

// end stops the callers, and returns the errors with their counts.
func (l *loading) end() map[string]int {
	close(l.stop)
	l.callers.Wait()
	return l.failed
}
