package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/exthost/exthost/mcpserver"
)

// rawClient exchanges frames as text over one transport. For legacy versions it has opened a session. It receives all
// messages in the order of their arrival.
type rawClient struct {
	stateless bool
	send      func(frame string)
	heard     <-chan string
}

const metaOnly = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// request sends a request whose params have the given members.
func (c *rawClient) request(id, method, members string) {
	if c.stateless {
		members = strings.TrimPrefix(members+","+metaOnly, ",")
	}
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, members))
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"raw","version":"1"}}}`
const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// eachRaw runs f as a subtest for every transport and protocol version.
func eachRaw(t *testing.T, o mcpserver.Options, f func(t *testing.T, b *fake, c *rawClient)) {
	for name, open := range map[string]func(*testing.T, *mcpserver.Server) *rawClient{
		"stdio/session": rawStdio, "http/session": rawHTTP, "sse/session": rawSSE,
		"stdio/stateless": func(t *testing.T, s *mcpserver.Server) *rawClient {
			in, out := serveStdio(t, s)
			return &rawClient{stateless: true, send: writeLines(in), heard: lines(out)}
		},
		"http/stateless": func(t *testing.T, s *mcpserver.Server) *rawClient {
			url := serveHTTP(t, s).URL + "/mcp"
			return postingClient(t, url, nil, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFake()
			f(t, b, open(t, mcpserver.New(b, o)))
		})
	}
}

func writeLines(w *os.File) func(string) {
	return func(frame string) { _, _ = io.WriteString(w, frame+"\n") }
}

// lines delivers the lines of r through a buffered channel.
func lines(r io.Reader) <-chan string {
	c := make(chan string, 4096)
	go func() {
		defer close(c)
		s := bufio.NewScanner(r)
		s.Buffer(nil, 64<<20)
		for s.Scan() {
			c <- s.Text()
		}
	}()
	return c
}

// events delivers the data of r's events, preceded by the event's name unless that is "message".
func events(r io.Reader) <-chan string {
	c := make(chan string, 4096)
	go func() {
		defer close(c)
		name := "message"
		for line := range lines(r) {
			if rest, ok := strings.CutPrefix(line, "event: "); ok {
				name = rest
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				c <- strings.TrimPrefix(name+" "+data, "message ")
			}
		}
	}()
	return c
}

func rawStdio(t *testing.T, s *mcpserver.Server) *rawClient {
	in, out := serveStdio(t, s)
	c := &rawClient{send: writeLines(in), heard: lines(out)}
	c.send(initialize)
	get(t, c.heard, "the handshake")
	c.send(initialized)
	return c
}

func rawSSE(t *testing.T, s *mcpserver.Server) *rawClient {
	url := serveHTTP(t, s).URL
	response := do(t, http.MethodGet, url+"/sse", nil, "")
	c := &rawClient{heard: events(response.Body)}
	endpoint, ok := strings.CutPrefix(get(t, c.heard, "the endpoint"), "endpoint /")
	if !ok {
		t.Fatal("the first event names no endpoint")
	}
	c.send = func(frame string) {
		if r := do(t, http.MethodPost, url+"/"+endpoint, nil, frame); r.StatusCode != http.StatusAccepted {
			t.Errorf("POST: %s", r.Status)
		}
	}
	c.send(initialize)
	get(t, c.heard, "the handshake")
	c.send(initialized)
	return c
}

func rawHTTP(t *testing.T, s *mcpserver.Server) *rawClient {
	url := serveHTTP(t, s).URL + "/mcp"
	return postingClient(t, url, http.Header{"Mcp-Session-Id": {openSession(t, url, nil)}}, false)
}

// openSession initializes a session and returns its id.
func openSession(t testing.TB, url string, h http.Header) string {
	t.Helper()
	response := do(t, http.MethodPost, url, h, initialize)
	id := response.Header.Get("Mcp-Session-Id")
	if response.StatusCode != http.StatusOK || len(id) < 22 {
		t.Fatalf("initialize: %s, session %q", response.Status, id)
	}
	h = h.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Mcp-Session-Id", id)
	if r := do(t, http.MethodPost, url, h, initialized); r.StatusCode != http.StatusAccepted {
		t.Fatalf("initialized: %s", r.Status)
	}
	return id
}

// postingClient sends each frame as a POST and collects all answers.
func postingClient(t *testing.T, url string, h http.Header, stateless bool) *rawClient {
	heard := make(chan string, 4096)
	return &rawClient{
		stateless: stateless,
		heard:     heard,
		send: func(frame string) {
			h := h.Clone()
			if stateless {
				mirrored := mirrored(frame)
				maps.Copy(mirrored, h)
				h = mirrored
			}
			response := do(t, http.MethodPost, url, h, frame)
			go func() {
				if response.Header.Get("Content-Type") == "application/json" {
					body, _ := io.ReadAll(response.Body)
					heard <- string(body)
					return
				}
				for data := range events(response.Body) {
					heard <- data
				}
			}()
		},
	}
}

// mirrored returns the headers that a modern request needs.
func mirrored(frame string) http.Header {
	var m struct {
		Method string
		Params struct{ Name string }
	}
	_ = json.Unmarshal([]byte(frame), &m)
	h := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {m.Method}}
	if m.Method == "tools/call" {
		h.Set("Mcp-Name", m.Params.Name)
	}
	return h
}

// do sends a request. The response's body is closed at the end of the test.
func do(t testing.TB, method, url string, h http.Header, body string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range h {
		request.Header[name] = values
	}
	if request.Header["Content-Type"] == nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := httpClient.Do(request)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); response.Body.Close() })
	return response
}

func text(t testing.TB, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
