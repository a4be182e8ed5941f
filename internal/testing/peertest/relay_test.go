package peertest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// relayClient is a client that records notifications.
type relayClient struct {
	*listener
	progress chan *mcp.ProgressNotificationParams
	started  int // number of calls
}

func newRelayClient(t *testing.T, h *host, p endpoint) *relayClient {
	t.Helper()
	e := &relayClient{listener: newListener(), progress: make(chan *mcp.ProgressNotificationParams, 64)}
	o := e.options()
	o.ProgressNotificationHandler = func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		e.progress <- r.Params
	}
	e.ClientSession = connectGo(t, h, p, o)
	return e
}

// pending is a call in progress.
type pending struct {
	token   string
	outcome chan string // receives the first text of the result, or the error
}

// start calls a tool with a progress token.
func (e *relayClient) start(ctx context.Context, tool string, arguments args) *pending {
	e.started++
	c := &pending{token: fmt.Sprint(tool, " ", e.started), outcome: make(chan string, 1)}
	params := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	params.SetProgressToken(c.token)
	go func() {
		r, err := e.CallTool(ctx, params)
		if err != nil {
			c.outcome <- "error: " + err.Error()
			return
		}
		c.outcome <- r.Content[0].(*mcp.TextContent).Text
	}()
	return c
}

// call calls a tool and compares its text.
func (e *relayClient) call(t *testing.T, tool string, arguments args, want string) {
	t.Helper()
	if got := get(t, e.start(deadline(t), tool, arguments).outcome, tool); got != want {
		t.Errorf("%s returned %q, want %q", tool, got, want)
	}
}

// expectProgress expects progress number i of c, and ignores late progress of other calls.
func (e *relayClient) expectProgress(t *testing.T, c *pending, i int) *mcp.ProgressNotificationParams {
	t.Helper()
	for {
		p := get(t, e.progress, "progress of "+c.token)
		if p.ProgressToken != c.token {
			continue
		}
		if p.Progress != float64(i) {
			t.Errorf("progress %s of %s, want %d", encode(p), c.token, i)
		}
		return p
	}
}

// waitStarted waits until c reports progress. If c ends before that, it returns its
// outcome.
func (e *relayClient) waitStarted(c *pending) (outcome string) {
	for {
		select {
		case p := <-e.progress:
			if p.ProgressToken == c.token {
				return ""
			}
		case outcome := <-c.outcome:
			return outcome
		}
	}
}

// TestRelays tests progress, cancellation and an added tool with servers of a legacy or modern version and
// legacy and modern clients on every transport.
func TestRelays(t *testing.T) {
	extensions := folder(t.TempDir())
	h := newHost(t, string(extensions))
	s := fastMCP(t, h.peers)
	extensions.add(t, s.id, "protocol = \"mcp\"\n"+launch(s.argv))
	extensions.add(t, "official", "protocol = \"mcp\"\n"+scripted(t, "official"))
	url := h.listen(t)
	for _, p := range endpoints {
		if p.Versions == "auto" {
			continue
		}
		t.Run(p.Transport+"/"+p.Versions, func(t *testing.T) {
			e := newRelayClient(t, h, h.at(p, url))
			for _, id := range []string{s.id, "official"} {
				t.Run(id+"/progress", func(t *testing.T) { relayProgress(t, e, registered(id, "count")) })
				t.Run(id+"/cancel",
					func(t *testing.T) { relayCancellation(t, e, registered(id, "wait"), registered(id, "cancelled")) })
				t.Run(id+"/changes", func(t *testing.T) {
					relayChanges(t, e, id, fmt.Sprintf("new_%s_%s", p.Transport, p.Versions))
				})
			}
		})
	}
}

func relayProgress(t *testing.T, e *relayClient, tool string) {
	c := e.start(deadline(t), tool, args{"to": 3})
	for i := range 3 {
		p := e.expectProgress(t, c, i+1)
		if p.Total != 3 || p.Message != fmt.Sprint("step ", i+1) {
			t.Errorf("progress %s, want step %d of 3", encode(p), i+1)
		}
	}
	if got := get(t, c.outcome, "the result"); got != "counted" {
		t.Error(got)
	}
}

// relayCancellation cancels a call in progress. Another tool waits until the server has
// received the cancellation.
func relayCancellation(t *testing.T, e *relayClient, tool, witness string) {
	ctx, cancel := context.WithCancel(deadline(t))
	c := e.start(ctx, tool, args{})
	e.expectProgress(t, c, 1)
	cancel()
	if got := get(t, c.outcome, "the cancelled call"); !strings.Contains(got, context.Canceled.Error()) {
		t.Errorf("the cancelled call returned %s", got)
	}
	e.call(t, witness, args{}, "cancelled")
}

func relayChanges(t *testing.T, e *relayClient, id, name string) {
	before := e.await(t, 1, registered(id, ""))
	e.call(t, registered(id, "grow"), args{"name": name}, "grown")
	after := e.await(t, len(before)+1, registered(id, ""))
	if after[registered(id, name)] == nil {
		t.Errorf("%s is not among the tools", name)
	}
	e.call(t, registered(id, name), args{}, "I am "+name)
}

// TestEverythingReportsProgress tests the progress of the reference server. Its last tool
// is announced by list_changed after the handshake.
func TestEverythingReportsProgress(t *testing.T) {
	extensions := folder(t.TempDir())
	h := newHost(t, string(extensions))
	s := everything(h.peers)
	extensions.add(t, s.id, "protocol = \"mcp\"\n"+launch(s.argv))
	for _, versions := range []string{"legacy", "modern"} {
		t.Run(versions, func(t *testing.T) {
			e := newRelayClient(t, h, h.at(endpoint{Transport: "stdio", Versions: versions}, ""))
			e.await(t, s.tools, registered(s.id, ""))
			c := e.start(deadline(t), registered(s.id, "trigger-long-running-operation"),
				args{"duration": 0.1, "steps": 4})
			for i := range 4 {
				e.expectProgress(t, c, i+1)
			}
			if got := get(t, c.outcome, "the result"); !strings.Contains(got, "Steps: 4") {
				t.Error(got)
			}
		})
	}
}

// TestManyCancellations cancels more calls than a server may have in flight. The reference server does not answer them,
// as MCP requires; other calls must not be affected.
func TestManyCancellations(t *testing.T) {
	extensions := folder(t.TempDir())
	h := newHost(t, string(extensions))
	s := everything(h.peers)
	extensions.add(t, s.id, "protocol = \"mcp\"\n"+launch(s.argv)+"[runtime]\nmax_in_flight = 4\n")
	e := newRelayClient(t, h, h.at(endpoint{Transport: "stdio", Versions: "legacy"}, ""))
	e.await(t, s.tools, registered(s.id, ""))
	tool := registered(s.id, "trigger-long-running-operation")
	neighbour := e.start(deadline(t), tool, args{"duration": 1, "steps": 1})
	for i := range 8 {
		ctx, cancel := context.WithCancel(deadline(t))
		c := e.start(ctx, tool, args{"duration": 0.5, "steps": 50})
		if got := e.waitStarted(c); got != "" {
			t.Errorf("call %d, after as many were cancelled: %s", i, got)
		}
		cancel()
	}
	if got := get(t, neighbour.outcome, "the neighbour"); !strings.Contains(got, "completed") {
		t.Errorf("the neighbour's call: %s", got)
	}
}
