package cluster_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// answering is a caller that counts the questions it gets, and runs a function before it answers.
type answering struct {
	told
	before func(method string)

	mu    sync.Mutex
	asked map[string]int
}

func (a *answering) Call(_ context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
	a.mu.Lock()
	a.asked[method]++
	a.mu.Unlock()
	a.before(method)
	return json.RawMessage(`{"role":"assistant","model":"m","action":"decline","content":{"type":"text","text":"` +
		method + `"}}`), nil
}

// An extension's question reaches its caller once and gets one answer, even if servers die before the caller answers.
func TestQuestionsWhileServersDie(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 3)
	node{
		Name:    "gpu1",
		As:      peers.AsMine,
		URLs:    s.urls(),
		Plugins: []plugin{{Script: "asking", Protocol: "mcp"}},
	}.start(t)
	front := open(t, join(t, s.urls(), "front", peers.AsMine), false)
	awaitTool(t, front, "ext_gpu1_x_ask", true)
	session := &protocol.Session{
		ID:           "s1",
		Version:      "2025-11-25",
		Capabilities: json.RawMessage(`{"sampling":{},"elicitation":{}}`),
	}
	for i := range 2 {
		dead := -1
		client := &answering{
			asked: make(map[string]int),
			before: func(method string) {
				if dead >= 0 {
					s.start(dead)
				}
				dead = i
				if method != "sampling/createMessage" {
					dead = (i + 1) % len(s.all)
				}
				s.all[dead].Kill()
			},
		}
		result, err := front.Do(within(t), &protocol.Call{
			Session: session,
			Client:  client,
			Method:  protocol.MethodToolsCall,
			Params:  json.RawMessage(`{"name":"ext_gpu1_x_ask","arguments":{}}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			StructuredContent struct {
				Answers []struct{ Content struct{ Text string } }
			}
		}
		if err := json.Unmarshal(result, &got); err != nil {
			t.Fatal(err)
		}
		if a := got.StructuredContent.Answers; len(a) != 2 || a[0].Content.Text != "sampling/createMessage" ||
			a[1].Content.Text != "elicitation/create" {
			t.Errorf("the answers: %s", result)
		}
		for method, n := range client.asked {
			if n != 1 {
				t.Errorf("%s was asked %d times", method, n)
			}
		}
		s.start(dead)
	}
}
