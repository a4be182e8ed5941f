package mcpserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/exthost/exthost/mcpserver"
)

func TestSSERepliesAreNotBroadcast(t *testing.T) {
	s := mcpserver.New(newFake(), mcpserver.Options{})
	alice, bob := rawSSE(t, s), rawSSE(t, s)
	for i := range 20 {
		id := fmt.Sprint(i)
		alice.request(id, "tools/call", `"name":"echo","arguments":{"for":"alice"}`)
		bob.request(id, "tools/call", `"name":"echo","arguments":{"for":"bob"}`)
	}
	for range 20 {
		for name, c := range map[string]*rawClient{"alice": alice, "bob": bob} {
			if got := get(t, c.heard, "an answer"); !strings.Contains(got, `{"for":"`+name+`"}`) {
				t.Errorf("%s heard %s", name, got)
			}
		}
	}
}

func TestSSESendsChangesOnceInitialized(t *testing.T) {
	b := newFake()
	c := rawSSE(t, mcpserver.New(b, mcpserver.Options{}))
	b.announce()
	if got := get(t, c.heard, "the change"); got != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
		t.Errorf("heard %s", got)
	}
}

func TestSSEEndsWithItsStream(t *testing.T) {
	b := newFake()
	server := serveHTTP(t, mcpserver.New(b, mcpserver.Options{}))
	stream := do(t, http.MethodGet, server.URL+"/sse", nil, "")
	endpoint, _ := strings.CutPrefix(get(t, events(stream.Body), "the endpoint"), "endpoint ")
	do(t, http.MethodPost, server.URL+endpoint, nil, initialize)
	do(t, http.MethodPost, server.URL+endpoint, nil,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hang"}}`)
	get(t, b.calls, "the call")
	stream.Body.Close()
	get(t, b.ended, "the call to be cancelled")
	get(t, b.detached, "the session to be detached")
}

func TestSSERefusals(t *testing.T) {
	server := serveHTTP(t, mcpserver.New(newFake(), mcpserver.Options{}))
	for _, test := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodPost, "/sse", initialize, 405},
		{http.MethodGet, "/message", "", 405},
		{http.MethodPost, "/message", ping, 404},
		{http.MethodPost, "/message?sessionId=x", ping, 404},
	} {
		if r := do(t, test.method, server.URL+test.path, nil, test.body); r.StatusCode != test.status {
			t.Errorf("%s %s: %s, want %d", test.method, test.path, r.Status, test.status)
		}
	}
}
