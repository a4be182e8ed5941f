package test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

// headersSeen records who got which headers.
type headersSeen struct {
	mu   sync.Mutex
	seen map[string]map[string]string
}

func (s *headersSeen) note(ctx context.Context, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[name] = protocol.HeadersOf(ctx)
}

func (s *headersSeen) take() map[string]map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = make(map[string]map[string]string)
	return seen
}

type headersPolicy struct {
	*headersSeen
	name string
}

func (p headersPolicy) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	p.note(ctx, p.name+" "+string(flow)+" "+x.Method+" "+x.Extension)
	return governance.Decision{}, nil
}

// Only policies of category authentication get the headers of HTTP requests; calls over stdio have none.
func TestHeadersAreForAuthenticationAlone(t *testing.T) {
	processtest.Leaks(t)
	s := &headersSeen{seen: make(map[string]map[string]string)}
	var members []governance.Member
	for _, c := range governance.Category("").Values() {
		members = append(members,
			governance.Member{
				Spec:   governance.Spec{Name: c, Category: governance.Category(c)},
				Policy: headersPolicy{s, c},
			})
	}
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{Policies: members})
	server := httptest.NewServer(mcpserver.New(h, mcpserver.Options{Headers: []string{"X-Tenant"}}).Handler(""))
	t.Cleanup(func() { server.Close(); http.DefaultClient.CloseIdleConnections() })
	post := func(authorization, body string) int {
		t.Helper()
		r, _ := http.NewRequestWithContext(hosttest.Deadline(t), http.MethodPost, server.URL, strings.NewReader(body))
		var m struct {
			Method string
			Params struct{ Name string }
		}
		_ = json.Unmarshal([]byte(body), &m) // written by the test
		for name, value := range map[string]string{
			"Content-Type":         "application/json",
			"Accept":               "application/json, text/event-stream",
			"Mcp-Protocol-Version": protocol.MCP20260728,
			"Mcp-Method":           m.Method,
			"Mcp-Name":             m.Params.Name,
			"Authorization":        authorization,
			"Cookie":               "c=1",
		} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		r.Header["X-Tenant"] = []string{"a", "b"}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for method, params := range map[string]string{
		"tools/call":     `"name":"ext_x_echo","arguments":{},`,
		"resources/list": "",
	} {
		post("Bearer secret-of-ada", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+meta+`}}`)
		seen, asked := s.take(), 0
		for who, headers := range seen {
			var want map[string]string
			if strings.HasPrefix(who, "authentication ") {
				want = map[string]string{"authorization": "Bearer secret-of-ada", "x-tenant": "a, b"}
				asked++
			}
			if diff := cmp.Diff(want, headers); diff != "" {
				t.Errorf("%s: %s", who, diff)
			}
		}
		if asked < 2 || len(seen) < 7 {
			t.Errorf("%s: %v", method, seen)
		}
	}
	post("", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+meta+`}}`)
	if got := s.take()["authentication request tools/list "]; !cmp.Equal(got, map[string]string{"x-tenant": "a, b"}) {
		t.Errorf("without Authorization: %v", got)
	}
	code := post("Bearer "+strings.Repeat("x", 17<<10),
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+meta+`}}`)
	if code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("17 KiB of headers: %d", code)
	}
	s.take()
	if _, err := h.Call(t.Context(), "ext_x_echo", nil); err != nil {
		t.Fatal(err)
	}
	if headers, asked := s.take()["authentication request tools/call x"]; !asked || headers != nil {
		t.Errorf("a call that did not come over HTTP: %v, %t", headers, asked)
	}
}
