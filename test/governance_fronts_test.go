package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

// way is a client's connection to the host through one front. A stateless one uses a protocol
// version without sessions, in which the host cannot send requests.
type way struct {
	stateless bool
	one       bool // of the extension x alone, under its own names
	send      func(frame string)
	heard     <-chan string
	told      []string // frames that came before the answers, by request
}

// request sends a request, answers the host's requests meanwhile, and returns the response frame.
func (w *way) request(t *testing.T, id int, method, members string) string {
	t.Helper()
	if w.stateless {
		members = strings.TrimPrefix(members+
			`,"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`, ",")
	} else {
		members = strings.TrimPrefix(members+`,"_meta":{"progressToken":1}`, ",")
	}
	w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, members))
	for {
		select {
		case frame, ok := <-w.heard:
			var m struct {
				ID     json.RawMessage
				Method string
			}
			if err := json.Unmarshal([]byte(frame), &m); err != nil || !ok {
				t.Fatalf("%s: %q, %v", method, frame, err)
			}
			switch {
			case m.Method == "elicitation/create":
				w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, m.ID))
			case m.Method == "" && string(m.ID) == fmt.Sprint(id):
				return frame
			default:
				w.told = append(w.told, frame)
			}
		case <-hosttest.Deadline(t).Done():
			t.Fatalf("%s: no answer", method)
		}
	}
}

// handshake opens a session.
func (w *way) handshake(t *testing.T) *way {
	w.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"raw","version":"1"}}}`)
	select {
	case <-w.heard:
	case <-hosttest.Deadline(t).Done():
		t.Fatal("no handshake")
	}
	w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return w
}

// frames delivers the lines of r, or the data of its events.
func frames(r io.Reader, to chan<- string) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 8<<20)
	for s.Scan() {
		if data, ok := strings.CutPrefix(s.Text(), "data: "); ok || strings.HasPrefix(s.Text(), "{") {
			to <- strings.TrimSpace(data)
		}
	}
}

func overStdio(t *testing.T, h *exthost.Host, stateless bool) *way {
	return overStdioWith(t, h, "", stateless)
}

// overStdioWith is overStdio for a client with a toolset.
func overStdioWith(t *testing.T, h *exthost.Host, toolset string, stateless bool) *way {
	ours, theirs := pipes(t), pipes(t)
	ctx, stop := context.WithCancel(mcpserver.WithToolset(context.Background(), toolset))
	ended := make(chan error, 1)
	go func() {
		ended <- mcpserver.New(h, mcpserver.Options{}).ServeStdio(ctx, theirs.r, ours.w)
	}()
	t.Cleanup(func() { theirs.w.Close(); stop(); <-ended; ours.w.Close() })
	heard := make(chan string, 1000)
	go frames(ours.r, heard)
	w := &way{stateless: stateless, heard: heard, send: func(frame string) { fmt.Fprintln(theirs.w, frame) }}
	if !stateless {
		w.handshake(t)
	}
	return w
}

type pipe struct{ r, w *os.File }

func pipes(t *testing.T) pipe {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return pipe{r, w}
}

// post sends a frame, and delivers the frames of the response to heard.
func post(t *testing.T, url, frame string, header http.Header, heard chan<- string) *http.Response {
	r, err := http.NewRequestWithContext(hosttest.Deadline(t), http.MethodPost, url, strings.NewReader(frame))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Errorf("POST: %v", err)
		return nil
	}
	go func() {
		defer response.Body.Close()
		if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
			body, _ := io.ReadAll(response.Body)
			heard <- string(body)
			return
		}
		frames(response.Body, heard)
	}()
	return response
}

func overStreamable(t *testing.T, h *exthost.Host, path string, stateless bool) *way {
	url, heard, header := hosttest.OverHTTP(t, h)+path, make(chan string, 1000), http.Header{}
	w := &way{stateless: stateless, one: path != "/mcp", heard: heard}
	w.send = func(frame string) {
		var m struct {
			Method string
			Params struct{ Name, URI, TaskID string }
		}
		_ = json.Unmarshal([]byte(frame), &m) // is ours
		own := header.Clone()
		if stateless {
			own.Set("Mcp-Protocol-Version", "2026-07-28")
			own.Set("Mcp-Method", m.Method)
			own.Set("Mcp-Name", m.Params.Name+m.Params.URI+m.Params.TaskID)
		}
		if r := post(t, url, frame, own, heard); r != nil && r.Header.Get("Mcp-Session-Id") != "" {
			header.Set("Mcp-Session-Id", r.Header.Get("Mcp-Session-Id"))
		}
	}
	if !stateless {
		w.handshake(t)
	}
	return w
}

func overSSE(t *testing.T, h *exthost.Host, path string) *way {
	url, heard := hosttest.OverHTTP(t, h), make(chan string, 1000)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	go frames(response.Body, heard)
	endpoint := <-heard
	w := &way{
		one:   path != "/sse",
		heard: heard,
		send:  func(frame string) { post(t, url+endpoint, frame, http.Header{}, make(chan string, 10)) },
	}
	return w.handshake(t)
}

// reachable is a Go client that answers elicitation.
type reachable struct{ *hosttest.Recorder }

func (reachable) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"action":"decline"}`), nil
}

func inGo(h *exthost.Host) *way {
	heard := make(chan string, 10)
	s := &protocol.Session{
		ID:           "go",
		Version:      protocol.MCP20251125,
		Capabilities: json.RawMessage(`{"elicitation":{}}`),
		Client:       reachable{hosttest.NewRecorder()},
	}
	return &way{
		heard: heard,
		send: func(frame string) {
			var m struct {
				ID     int
				Method string
				Params json.RawMessage
			}
			_ = json.Unmarshal([]byte(frame), &m) // is ours
			result, err := h.Do(context.Background(),
				&protocol.Call{Session: s, Method: m.Method, Params: m.Params, Client: s.Client})
			if err != nil {
				result, _ = json.Marshal(map[string]any{"isError": true, "error": err.Error()})
			}
			heard <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, m.ID, result)
		},
	}
}

// At every front, a policy sees each request, each response, and the notifications and requests
// of extensions meanwhile; denied ones do not happen.
func TestEveryFrontIsGoverned(t *testing.T) {
	told := []string{
		"request < notifications/progress ext_x_work", "request < notifications/progress ext_x_work",
		"request < notifications/progress ext_x_work",
		"request < notifications/message ext_x_work",
	}
	for name, connect := range map[string]func(*testing.T, *exthost.Host) *way{
		"Go":              func(_ *testing.T, h *exthost.Host) *way { return inGo(h) },
		"stdio":           func(t *testing.T, h *exthost.Host) *way { return overStdio(t, h, false) },
		"stdio stateless": func(t *testing.T, h *exthost.Host) *way { return overStdio(t, h, true) },
		"mcp":             func(t *testing.T, h *exthost.Host) *way { return overStreamable(t, h, "/mcp", false) },
		"mcp stateless":   func(t *testing.T, h *exthost.Host) *way { return overStreamable(t, h, "/mcp", true) },
		"sse":             func(t *testing.T, h *exthost.Host) *way { return overSSE(t, h, "/sse") },
		"x mcp":           func(t *testing.T, h *exthost.Host) *way { return overStreamable(t, h, "/x/mcp", false) },
		"x mcp stateless": func(t *testing.T, h *exthost.Host) *way { return overStreamable(t, h, "/x/mcp", true) },
		"x sse":           func(t *testing.T, h *exthost.Host) *way { return overSSE(t, h, "/x/sse") },
	} {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			policy := &sentinel{
				deny: func(_ governance.Flow, x *governance.Exchange) bool { return x.Tool == "ext_x_echo" },
			}
			h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Add("m",
				hosttest.Plays("mcp", "protocol = \"mcp\"\nmcp_version = \"2025-11-25\"\n")).Open(
				exthost.Options{Policies: []governance.Member{member("sentinel", governance.Authorization, policy)}})
			w := connect(t, h)
			policy.mu.Lock()
			policy.seen = nil // of the handshake
			policy.mu.Unlock()
			want := append(append([]string{
				"request > tools/list ",
				"response > tools/list ",
				"request > tools/call ext_x_work",
			}, told...),
				"response > tools/call ext_x_work", "request > tools/call ext_x_echo")
			w.request(t, 1, "tools/list", "")
			prefix := "ext_x_"
			if w.one {
				prefix = ""
			}
			w.request(t, 2, "tools/call", `"name":"`+prefix+`work"`)
			denied := w.request(t, 3, "tools/call", `"name":"`+prefix+`echo","arguments":{}`)
			if !strings.Contains(denied, "not today") {
				t.Errorf("a denied call: %s", denied)
			}
			if !w.stateless && !w.one {
				asked := w.request(t, 4, "tools/call", `"name":"ext_m_ask"`)
				if !strings.Contains(asked, "home: decline") {
					t.Errorf("a call that asks: %s", asked)
				}
				want = append(want, "request > tools/call ext_m_ask", "request < elicitation/create ext_m_ask",
					"response < elicitation/create ext_m_ask", "response > tools/call ext_m_ask")
			}
			if n := hosttest.StatusOf(t, h, "x").Calls; n != 1 {
				t.Errorf("%d calls reached the extension, one was let pass", n)
			}
			policy.mu.Lock()
			defer policy.mu.Unlock()
			if diff := cmp.Diff(want, policy.seen); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The operator's API calls tools by the same path.
func TestTheAPIIsGoverned(t *testing.T) {
	policy := &sentinel{deny: func(_ governance.Flow, x *governance.Exchange) bool { return x.Tool == "ext_x_echo" }}
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(
		exthost.Options{Policies: []governance.Member{member("sentinel", governance.Authorization, policy)}})
	for tool, status := range map[string]int{"ext_x_greet": http.StatusOK, "ext_x_echo": http.StatusForbidden} {
		w := httptest.NewRecorder()
		httpserver.Admin(h, nil).ServeHTTP(w,
			httptest.NewRequest(http.MethodPost, "/api/v1/tools/"+tool+"/call", strings.NewReader(`{"name":"Ada"}`)))
		if w.Code != status {
			t.Errorf("%s: %d %s", tool, w.Code, w.Body)
		}
	}
	if len(policy.seen) != 3 {
		t.Errorf("seen: %q", policy.seen)
	}
}
