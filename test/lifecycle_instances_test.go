package test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// answersPID is a native extension in sh whose tool answers with its process id.
const answersPID = `#!/bin/sh
read -r line
echo '{"jsonrpc":"2.0","id":0,"result":{"tools":[{"name":"pid","input_schema":{"type":"object"}}]}}'
while read -r line; do
	echo "{\"jsonrpc\":\"2.0\",\"id\":$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/'),\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$$\"}]}}"
done
`

func pidFolder(t *testing.T, runtime string) *hosttest.Folder {
	f := hosttest.NewFolder(t).Add("x",
		"[capabilities]\ntools = [\"pid\"]\n[transport]\nscript = \"x.sh\"\n[runtime]\n"+runtime)
	f.Write("x/x.sh", answersPID)
	return f
}

// pidFor returns the process that answers a session's call.
func pidFor(t *testing.T, h *exthost.Host, s *protocol.Session) string {
	t.Helper()
	result, err := h.Do(hosttest.Deadline(t),
		&protocol.Call{Session: s, Method: protocol.MethodToolsCall, Params: json.RawMessage(`{"name":"ext_x_pid"}`)})
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	return protocol.ToolResult(result).Text()
}

// An instance belongs to a session, else to an authenticated caller, else to all anonymous callers; and to either
// legacy or modern versions of MCP.
func TestWhoSharesAnInstance(t *testing.T) {
	processtest.Leaks(t)
	h := pidFolder(t, "instances = \"per_session\"\n").Open(exthost.Options{})
	const modern = protocol.MCP20260728
	owner := make(map[string]int)
	for i, same := range [][]*protocol.Session{
		{{ID: "a"}, {ID: "a", Caller: "ada"}, {ID: "a", Version: protocol.MCP20251125}},
		{{ID: "b"}},
		{{ID: "a", Version: modern}},
		{{Caller: "ada"}, {Caller: "ada", Version: protocol.MCP20251125}},
		{{Caller: "bob"}},
		{{Caller: "ada", Version: modern}},
		{{Caller: "a"}}, // no session with that id
		{{}, nil, {Version: modern}},
	} {
		for _, s := range same {
			pid := pidFor(t, h, s)
			if other, known := owner[pid]; known && other != i {
				t.Errorf("%+v shares a process with group %d", s, other)
			} else if !known && s != same[0] {
				t.Errorf("%+v has a process of its own", s)
			}
			owner[pid] = i
		}
	}
	hosttest.Eventually(t, "that of the first handshake has ended, and 8 are left", func() bool {
		return len(hosttest.StatusOf(t, h, "x").Instances) == 8
	})
}

// Shared is one process for everybody, and a number is that many.
func TestInstancesSharedAndCounted(t *testing.T) {
	processtest.Leaks(t)
	for runtime, want := range map[string]int{"": 1, "instances = 3\n": 3} {
		h := pidFolder(t, runtime).Open(exthost.Options{})
		hosttest.Eventually(t, "all are ready", func() bool {
			ready := 0
			for _, i := range hosttest.StatusOf(t, h, "x").Instances {
				if i.State == "ready" {
					ready++
				}
			}
			return ready == want
		})
		pids := make(map[string]bool)
		for n := range 12 {
			pids[pidFor(t, h, &protocol.Session{ID: fmt.Sprint(n)})] = true
		}
		if len(pids) != want {
			t.Errorf("%q: %d processes, want %d", runtime, len(pids), want)
		}
	}
}

// max_instances limits what sessions can start: one more is overloaded while all are busy, and replaces an idle one
// otherwise.
func TestMaxInstancesBoundsWhatSessionsStart(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("x",
		hosttest.Child("sdk", "[runtime]\ninstances = \"per_session\"\nmax_instances = 2\n")).Open(exthost.Options{})
	call := func(ctx context.Context, session, tool string) error {
		_, err := h.Do(ctx, &protocol.Call{
			Session: &protocol.Session{ID: session},
			Method:  protocol.MethodToolsCall,
			Params:  json.RawMessage(`{"name":"ext_x_` + tool + `","arguments":{}}`),
		})
		return err
	}
	ended := make(chan error, 2)
	ends := make(map[string]context.CancelFunc)
	for _, session := range []string{"a", "b"} {
		ctx, cancel := context.WithCancel(hosttest.Deadline(t))
		ends[session] = cancel
		go func() { ended <- call(ctx, session, "wait") }()
	}
	hosttest.Eventually(t, "both are busy", func() bool {
		busy := 0
		for _, i := range hosttest.StatusOf(t, h, "x").Instances {
			busy += i.InFlight
		}
		return busy == 2
	})
	if err := call(hosttest.Deadline(t), "c", "echo"); protocol.KindOf(err) != protocol.Overloaded ||
		!strings.Contains(err.Error(), "max_instances") {
		t.Errorf("a third session: %v", err)
	}
	if err := call(hosttest.Deadline(t), "a", "echo"); err != nil {
		t.Errorf("a session that has an instance: %v", err)
	}
	ends["a"]()
	if err := <-ended; protocol.KindOf(err) != protocol.Canceled {
		t.Error(err)
	}
	if err := call(hosttest.Deadline(t), "c", "echo"); err != nil {
		t.Errorf("when one is idle: %v", err)
	}
	ends["b"]()
	<-ended
}

// An eager extension that is idle is stopped like any other, and starts again on demand.
func TestEagerIdlesToo(t *testing.T) {
	processtest.Leaks(t)
	h := pidFolder(t, "idle_timeout = \"50ms\"\n").Open(exthost.Options{})
	first := pidFor(t, h, nil)
	hosttest.Eventually(t, "it is stopped",
		func() bool { x := hosttest.StatusOf(t, h, "x"); return x.State == "idle" && x.Instances[0].PID == 0 })
	if second := pidFor(t, h, nil); second == first {
		t.Error("it was not stopped")
	}
	if x := hosttest.StatusOf(t, h, "x"); x.Restarts != 0 || x.LastCrash != nil {
		t.Errorf("idling is no failure: %+v", x)
	}
}
