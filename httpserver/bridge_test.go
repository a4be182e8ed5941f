package httpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/mcpserver"
)

// Each client of a destination has its own child, and gets only that child's messages.
func TestBridgeNoCrosstalk(t *testing.T) {
	addr, _ := bridged(t, stdioPeer, Options{})
	a, b := openStream(t, "http://"+addr+"/d", nil), openStream(t, "http://"+addr+"/d", nil)
	if pa, pb := text(t, a.call("pid", `{}`)), text(t, b.call("pid", `{}`)); pa == pb {
		t.Errorf("one process, %s, serves both", pa)
	}
	var wg sync.WaitGroup
	for name, s := range map[string]*sseStream{"a": a, "b": b} {
		wg.Go(func() {
			for i := range 200 { // both clients use the same ids
				want := fmt.Sprint(name, i)
				if got := text(t, s.call("say", `{"text":"`+want+`"}`)); got != want {
					t.Errorf("%s was answered %s", want, got)
				}
			}
		})
	}
	wg.Wait()
	if !strings.Contains(a.post, "/d/message?sessionId=") {
		t.Errorf("messages go to %s", a.post)
	}
}

// A destination has its own serverInfo in legacy and modern protocol versions, and so has the host.
func TestBridgeNamesTheServerBehindIt(t *testing.T) {
	addr, _ := bridged(t, stdioPeer, Options{})
	for path, want := range map[string]string{
		"/d/mcp":  `{"name":"peer","version":"1"}`,
		"/mcp":    `{"name":"exthost","version":"0.0.0"}`,
		"/d/mcp/": `{"name":"peer","version":"1"}`,
		"/mcp/":   `{"name":"exthost","version":"0.0.0"}`,
	} {
		for _, body := range []string{initialize, discover} {
			h := http.Header{}
			if body == discover {
				h.Set("Mcp-Protocol-Version", "2026-07-28")
				h.Set("Mcp-Method", "server/discover")
			}
			answer, _ := io.ReadAll(send(t, http.MethodPost, "http://"+addr+path, h, body).Body)
			if !strings.Contains(string(answer), `erverInfo":`+want) {
				t.Errorf("%s: %s", path, answer)
			}
		}
	}
}

const discover = `{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// A client that does not read does not slow down others, and its queue is bounded.
func TestBridgeStalledReader(t *testing.T) {
	addr, h := bridged(t, stdioPeer, Options{})
	stalled, other := openStream(t, "http://"+addr+"/d", nil), openStream(t, "http://"+addr+"/d", nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const replies, size = 64, 2 << 20 // twice the bound of the queue
	for range replies {
		stalled.send("tools/call", fmt.Sprintf(`{"name":"size","arguments":{"size":%d}}`, size))
	}
	var slowest time.Duration
	for i := range 200 {
		began := time.Now()
		if got := text(t, other.call("say", fmt.Sprintf(`{"text":"%d"}`, i))); got != fmt.Sprint(i) {
			t.Errorf("the other client: %s", got)
		}
		slowest = max(slowest, time.Since(began))
	}
	calls := func() bool { return h.Admin().Status().Destinations[0].Calls == replies+200 }
	held := func() int64 {
		runtime.GC()
		runtime.ReadMemStats(&after)
		return int64(after.HeapAlloc) - int64(before.HeapAlloc)
	}
	eventually(t, func() bool { return calls() && held() < 96<<20 })
	t.Logf("slowest call beside it %v, the host holds %d MiB more", slowest, held()>>20)
}

// A killed child is an error at once. The next call gets another child without any action of the client.
func TestBridgeKilledChild(t *testing.T) {
	addr, h := bridged(t, stdioPeer, Options{})
	s := openSession(t, "http://"+addr+"/d/mcp", nil)
	kill := func(nth int) time.Duration {
		_, answer := s.call("pid", `{}`)
		pid, err := strconv.Atoi(text(t, answer))
		if err != nil {
			t.Fatalf("after %d kills: %s", nth, answer)
		}
		// the previous call ends
		eventually(t, func() bool { return inFlight(h.Admin().Status().Destinations[0].Instances) == 0 })
		answered, hangs := make(chan string, 1), filepath.Join(t.TempDir(), "hangs")
		go func() {
			_, answer := s.call("hang", fmt.Sprintf(`{"text":%q}`, hangs))
			answered <- answer
		}()
		// a call that was not sent yet would go to the next child
		eventually(t, func() bool { _, err := os.Stat(hangs); return err == nil })
		child, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		if err := child.Kill(); err != nil {
			t.Fatal(err)
		}
		answer = get(t, answered, "the error")
		took := time.Since(killed)
		if !strings.Contains(answer, `"kind":"child_exited"`) || !strings.Contains(answer, `"signal":"SIGKILL"`) ||
			!strings.Contains(answer, `"outcome":"unknown"`) {
			t.Fatalf("kill %d: %s", nth, answer)
		}
		return took
	}
	stormtest.Claim(t, "p99 from kill to the client's error", 50*time.Millisecond, func() (time.Duration, string) {
		var took stormtest.Durations
		for i := range stormtest.Sized(20, 200) {
			took = append(took, kill(i))
		}
		return took.Quantile(0.99), took.String()
	})
}

func TestBridgeRefusesWhatKeepsFailing(t *testing.T) {
	addr, h := bridged(t, stdioPeer, Options{})
	url := "http://" + addr + "/d/mcp"
	s, other := openSession(t, url, nil), openSession(t, url, nil)
	for range 4 {
		if _, answer := s.call("die", `{}`); !strings.Contains(answer, `"kind":"child_exited"`) {
			t.Fatalf("the call that it dies of: %s", answer)
		}
	}
	r, answer := s.call("say", `{"text":"x"}`)
	after, _ := strconv.Atoi(r.Header.Get("Retry-After"))
	if r.StatusCode != http.StatusServiceUnavailable || after < 1 || after > 30 ||
		!strings.Contains(answer, `"exit_code":3`) || !json.Valid([]byte(answer)) {
		t.Errorf("after three restarts: %s, Retry-After %d, %s", r.Status, after, answer)
	}
	if r, answer := other.call("say", `{"text":"x"}`); r.StatusCode != http.StatusOK {
		t.Errorf("another client: %s %s", r.Status, answer)
	}
	if err := h.Admin().Restart(t.Context(), "d"); err != nil {
		t.Fatal(err)
	}
	if r, answer := s.call("say", `{"text":"x"}`); r.StatusCode != http.StatusOK || text(t, answer) != "x" {
		t.Errorf("after the operator's restart: %s %s", r.Status, answer)
	}
}

// The process of a new client is restarted three times while the client waits; then it gets 503 and the reason.
func TestBridgeRestartsTheProcessOfANewClient(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	addr, _ := bridged(t, config.Destinations{"d": {
		Type:           config.DestinationStdio,
		Command:        []string{"sh", "-c", "echo >>" + starts + "; echo no API key >&2; exit 4"},
		EnvFromHeaders: map[string]string{"X-Api-Key": "API_KEY"}, // so that no process is started beforehand
	}}, Options{})
	for range 2 {
		r := send(t, http.MethodPost, "http://"+addr+"/d/mcp", nil, initialize)
		body, _ := io.ReadAll(r.Body)
		if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") != "30" ||
			!strings.Contains(string(body), "exit status 4") {
			t.Errorf("%s, Retry-After %s, %s", r.Status, r.Header.Get("Retry-After"), body)
		}
		if lines, _ := os.ReadFile(starts); string(lines) != "\n\n\n\n" {
			t.Errorf("%d starts", len(lines))
		}
	}
}

func TestBridgeCannotRun(t *testing.T) {
	addr, _ := bridged(t, config.Destinations{
		"d": {Type: config.DestinationStdio, Command: []string{"no-such-program"}},
	}, Options{})
	for _, r := range []*http.Response{
		send(t, http.MethodPost, "http://"+addr+"/d/mcp", nil, initialize),
		send(t, http.MethodGet, "http://"+addr+"/d/sse", nil, ""),
	} {
		body, _ := io.ReadAll(r.Body)
		if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") != "30" ||
			!strings.Contains(string(body), "no-such-program") {
			t.Errorf("%s %s %s", r.Status, r.Header, body)
		}
	}
}

// remoteServer is another server, which answers every forwarded request.
type remoteServer struct{}

func (remoteServer) Home() string { return "here" }

func (remoteServer) Homes() []string { return []string{"there"} }

func (remoteServer) ServeForwarded(func(context.Context, http.ResponseWriter, []byte)) {}

func (remoteServer) Forward(_ context.Context, w http.ResponseWriter, home string, _ []byte) (bool, error) {
	_, err := io.WriteString(w, "answered by "+home)
	return true, err
}

// A session of a destination on another server is served, whatever happens to the destination here.
func TestBridgeCannotRunHere(t *testing.T) {
	addr, _ := bridged(t, config.Destinations{
		"d": {Type: config.DestinationStdio, Command: []string{"no-such-program"}},
	},
		Options{MCP: mcpserver.Options{Remote: remoteServer{}}})
	there := http.Header{"Mcp-Session-Id": {"x.there"}}
	for id, r := range map[string]*http.Response{
		"POST":    send(t, http.MethodPost, "http://"+addr+"/d/mcp", there, listTools),
		"GET":     send(t, http.MethodGet, "http://"+addr+"/d/mcp", there, ""),
		"message": send(t, http.MethodPost, "http://"+addr+"/d/message?sessionId=x.there", nil, listTools),
	} {
		if body, _ := io.ReadAll(r.Body); string(body) != "answered by there" {
			t.Errorf("%s: %s %s", id, r.Status, body)
		}
	}
	if r := send(t, http.MethodPost, "http://"+addr+"/d/mcp", http.Header{"Mcp-Session-Id": {"x.here"}},
		listTools); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a session here: %s", r.Status)
	}
}

// A destination has its own port, or the next free one if that is taken. The port needs a token if the server does.
func TestBridgePorts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	_, h := bridged(t, config.Destinations{
		"d": {Type: config.DestinationStdio, Port: port},
		"e": {Type: config.DestinationStdio},
	},
		Options{OperatorToken: "made-at-start", Token: "made-at-start"})
	listens := map[string]string{}
	eventually(t, func() bool {
		for _, d := range h.Status().Destinations {
			if d.Listens != "" {
				listens[d.ID] = d.Listens
			}
		}
		return len(listens) == 2
	})
	if at := listens["d"]; at == fmt.Sprintf("http://127.0.0.1:%d", port) ||
		!strings.HasPrefix(at, "http://127.0.0.1:") {
		t.Errorf("d listens at %s, and %d is taken", at, port)
	}
	for _, h := range []http.Header{
		nil,
		{"Authorization": {"Bearer made-at-star"}},
		{"Authorization": {"made-at-start"}},
	} {
		for _, path := range []string{"/mcp", "/sse", "/message", "/", "/d/mcp"} {
			if r := send(t, http.MethodPost, listens["d"]+path, h,
				initialize); r.StatusCode != http.StatusUnauthorized {
				t.Errorf("POST %s with %v: %s", path, h, r.Status)
			}
		}
	}
	token := http.Header{"Authorization": {"Bearer made-at-start"}}
	if r, answer := openSession(t, listens["d"]+"/mcp", token).call("say",
		`{"text":"x"}`); r.StatusCode != http.StatusOK || text(t, answer) != "x" {
		t.Errorf("on its own port: %s %s", r.Status, answer)
	}
	s := openStream(t, listens["e"], token)
	if got := text(t, s.call("say", `{"text":"y"}`)); got != "y" {
		t.Errorf("over SSE on its own port: %s", got)
	}
	if r := send(t, http.MethodPost, listens["d"]+"/api/v1/status", token, ""); r.StatusCode != http.StatusNotFound {
		t.Errorf("the port serves more than its destination: %s", r.Status)
	}
}

// Credentials for this host are not passed on. Headers selected by the operator reach only the client's own
// child.
func TestBridgeHeaders(t *testing.T) {
	addr, _ := bridged(t, config.Destinations{
		"d": {Type: config.DestinationStdio, EnvFromHeaders: map[string]string{"X-Api-Key": "API_KEY"}},
	}, Options{Token: "gateway"})
	header := func(key string) http.Header {
		return http.Header{"Authorization": {"Bearer gateway"}, "Cookie": {"c=cookie"}, "X-Api-Key": {key}}
	}
	a, b := openSession(t, "http://"+addr+"/d/mcp", header("of-a")), openStream(t, "http://"+addr+"/d", header("of-b"))
	_, answer := a.call("environ", `{"text":"API_KEY"}`)
	if got := text(t, answer); got != "of-a" {
		t.Errorf("a's child has %q", got)
	}
	if got := text(t, b.call("environ", `{"text":"API_KEY"}`)); got != "of-b" {
		t.Errorf("b's child has %q", got)
	}
}

// upstream is a remote MCP server that records its requests.
func upstream(t *testing.T) (url string, seen func() []http.Header) {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "upstream", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "say", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "from upstream"}}}, nil
		})
	var mu sync.Mutex
	var headers []http.Header
	note := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			headers = append(headers, r.Header.Clone())
			mu.Unlock()
			h.ServeHTTP(w, r)
		})
	}
	mux := http.NewServeMux()
	get := func(*http.Request) *mcp.Server { return s }
	mux.Handle("/events", note(mcp.NewSSEHandler(get, nil)))
	mux.Handle("/stream", note(mcp.NewStreamableHTTPHandler(get, nil)))
	server := httptest.NewServer(mux)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL, func() []http.Header {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(headers)
	}
}

// Remote servers are bridged too. The host consumes their endpoint event; the client gets the host's endpoint.
func TestBridgeRemote(t *testing.T) {
	url, seen := upstream(t)
	addr, _ := bridged(t, config.Destinations{
		"events": {
			Type:    config.DestinationSSE,
			URL:     url + "/events",
			Headers: map[string]string{"X-Of": "the operator"},
		},
		"stream": {
			Type:    config.DestinationHTTP,
			URL:     url + "/stream",
			Headers: map[string]string{"X-Of": "the operator"},
		},
	}, Options{Token: "gateway"})
	shown := http.Header{"Authorization": {"Bearer gateway"}, "Cookie": {"c=cookie"}}
	for _, name := range []string{"events", "stream"} {
		s := openStream(t, "http://"+addr+"/"+name, shown)
		if !strings.HasPrefix(s.post, "http://"+addr+"/"+name+"/message?sessionId=") {
			t.Errorf("%s: messages go to %s", name, s.post)
		}
		if got := text(t, s.call("say", `{}`)); got != "from upstream" {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, h := range seen() {
		if h.Get("Authorization") != "" || h.Get("Cookie") != "" || h.Get("X-Of") != "the operator" {
			t.Errorf("upstream was sent %v", h)
		}
	}
}

// A session is valid only for its destination and the caller that opened it.
func TestSessionBelongsToItsDestinationAndCaller(t *testing.T) {
	addr, _ := bridged(t, config.Destinations{
		"d": {Type: config.DestinationStdio},
		"e": {Type: config.DestinationStdio},
	}, Options{})
	d := openSession(t, "http://"+addr+"/d/mcp", nil)
	for _, path := range []string{"/e/mcp", "/mcp"} {
		d.url = "http://" + addr + path
		if r, answer := d.call("say", `{"text":"x"}`); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s %s", path, r.Status, answer)
		}
	}
	s := openStream(t, "http://"+addr+"/d", nil)
	if id := s.post[strings.Index(s.post, "=")+1:]; len(id) < 26 { // 26 characters of base32 are 130 bits
		t.Errorf("the id %s is too short to be unguessable", id)
	}
	s.post = strings.Replace(s.post, "/d/", "/e/", 1)
	if r := send(t, http.MethodPost, s.post, nil,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`); r.StatusCode != http.StatusNotFound {
		t.Errorf("a message by way of another destination: %s", r.Status)
	}
}

// The status of a task goes only to the caller that started it, although others use the same child.
func TestTaskStatusIsForWhoBeganIt(t *testing.T) {
	addr, _ := bridged(t, config.Destinations{"d": {Type: config.DestinationStdio, Instances: "shared"}}, Options{})
	a, b := openStream(t, "http://"+addr+"/d", nil), openStream(t, "http://"+addr+"/d", nil)
	for s, id := range map[*sseStream]string{a: "of-a", b: "of-b"} {
		s.send("tools/call", `{"name":"task","task":{"ttl":60000},"arguments":{"text":"`+id+`"}}`)
		if got := s.next(); !strings.Contains(got, `"taskId":"`+id+`"`) {
			t.Fatal(got)
		}
	}
	a.send("tools/call", `{"name":"tell","arguments":{"text":"of-b"}}`)
	if got := a.next(); !strings.Contains(got, `"content"`) {
		t.Errorf("a hears %s", got)
	}
	if got := b.next(); !strings.Contains(got, "notifications/tasks/status") || !strings.Contains(got, "of-b") {
		t.Errorf("b hears %s", got)
	}
	for range 2 { // an ended task has no further status
		b.send("tools/call", `{"name":"tell","arguments":{"text":"of-b"}}`)
		if got := b.next(); !strings.Contains(got, `"content"`) {
			t.Errorf("b hears %s", got)
		}
	}
}
