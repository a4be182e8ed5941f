package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

// group is several servers that reach each other without a network.
type group struct {
	mu     sync.Mutex
	serves map[string]func(ctx context.Context, w http.ResponseWriter, request []byte)
	count  atomic.Int64 // forwarded requests
}

// member is the mcpserver.RemoteServers of one server in a group.
type member struct {
	*group
	home string
}

func (h member) Home() string { return h.home }

func (h member) Homes() (list []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for home := range h.serves {
		if home != h.home {
			list = append(list, home)
		}
	}
	return list
}

func (h member) ServeForwarded(serve func(ctx context.Context, w http.ResponseWriter, request []byte)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.serves[h.home] = serve
}

func (h member) Forward(ctx context.Context, w http.ResponseWriter, home string, request []byte,
) (began bool, err error) {
	h.mu.Lock()
	serve := h.serves[home]
	h.mu.Unlock()
	if serve == nil {
		return false, protocol.Errorf(protocol.NodeLost, "there is no %s", home)
	}
	h.count.Add(1)
	began = true
	defer func() {
		if p := recover(); p == errLost { // a test makes its server panic with errLost
			err = &protocol.Error{Kind: protocol.NodeLost, Outcome: "unknown", Message: "it is gone"}
		} else if p != nil {
			panic(p)
		}
	}()
	serve(ctx, plain{w}, request)
	return began, nil
}

const errLost = "lost"

// plain is a ResponseWriter that cannot be hijacked.
type plain struct{ http.ResponseWriter }

func (p plain) Unwrap() http.ResponseWriter { return flusher(p) }

type flusher struct{ http.ResponseWriter }

func (f flusher) FlushError() error { return http.NewResponseController(f.ResponseWriter).Flush() }

// serveGroup returns n servers of one backend that reach each other.
func serveGroup(t testing.TB, n int, b mcpserver.Backend, o mcpserver.Options) (*group, []*httptest.Server) {
	all := &group{serves: make(map[string]func(context.Context, http.ResponseWriter, []byte))}
	var list []*httptest.Server
	for i := range n {
		o.Remote = member{all, "home" + string(rune('a'+i))}
		list = append(list, serveHTTP(t, mcpserver.New(b, o)))
	}
	return all, list
}

// holder is a backend with one task.
type holder struct {
	*fake
	task string
	asks *atomic.Int64
}

func (h holder) Do(_ context.Context, c *protocol.Call) (json.RawMessage, error) {
	h.asks.Add(1)
	if id, _ := rawjson.Text(rawjson.Get(c.Params, "taskId")); id != h.task {
		if c.Extension != "" && !c.Begun {
			return nil, protocol.Errorf(protocol.ExtensionError, "the extension says no")
		}
		return nil, protocol.Errorf(protocol.InvalidArguments, "%w %q", protocol.ErrNoTask, id)
	}
	return json.RawMessage(`{"taskId":"` + h.task + `","status":"working","by":"` + c.Session.Caller + `"}`), nil
}

// A server that closes ends the forwarded streams of other servers' sessions, but requests are still answered.
func TestForwardedStreamEndsWithItsServer(t *testing.T) {
	all, asked, goOn := &group{
		serves: make(map[string]func(context.Context, http.ResponseWriter, []byte)),
	}, make(chan struct{}), make(chan struct{})
	member{all, "homeb"}.ServeForwarded(func(ctx context.Context, w http.ResponseWriter, request []byte) {
		if bytes.Contains(request, []byte("tools/list")) {
			close(asked)
			<-goOn
			_, _ = io.WriteString(w, "answer")
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": \n\n")
		_ = http.NewResponseController(w).Flush()
		<-ctx.Done()
	})
	s := mcpserver.New(newFake(), mcpserver.Options{Remote: member{all, "homea"}})
	url, session := serveHTTP(t, s).URL+"/mcp", sent("Mcp-Session-Id", "x.homeb")
	stream := do(t, http.MethodGet, url, session, "")
	answer := make(chan string)
	go func() {
		_, got := post(t, url, session, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		answer <- got
	}()
	<-asked
	s.Close()
	if got := text(t, stream); got != ": \n\n" {
		t.Errorf("the stream: %q", got)
	}
	close(goOn)
	if got := <-answer; got != "answer" {
		t.Errorf("the request: %q", got)
	}
}

// A forwarded call ends with the token that opened its session, even if the forwarding server does not know about
// that token.
func TestForwardedCallEndsWithItsToken(t *testing.T) {
	until, end := context.WithCancel(t.Context())
	all, b := &group{serves: make(map[string]func(context.Context, http.ResponseWriter, []byte))}, newFake()
	home, front := mcpserver.New(b, mcpserver.Options{Remote: member{all, "homea"}}), mcpserver.New(newFake(),
		mcpserver.Options{Remote: member{all, "homeb"}})
	t.Cleanup(home.Close)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/mcp",
		strings.NewReader(begin)).WithContext(mcpserver.WithUntil(t.Context(), until))
	r.Header.Set("Content-Type", "application/json")
	home.Handler("").ServeHTTP(w, r)
	session, url := sent("Mcp-Session-Id", w.Header().Get("Mcp-Session-Id")), serveHTTP(t, front).URL+"/mcp"
	answer := make(chan string)
	go func() {
		_, got := post(t, url, session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hang"}}`)
		answer <- got
	}()
	<-b.calls
	end()
	if got := <-answer; !strings.Contains(got, `"error":{`) {
		t.Errorf("the answer: %s", got)
	}
}

// A task is found on whichever server it has begun.
func TestTaskIsFoundOnItsServer(t *testing.T) {
	all, asks := &group{
		serves: make(map[string]func(context.Context, http.ResponseWriter, []byte)),
	}, make([]atomic.Int64, 3)
	var urls []string
	for i, name := range []string{"a", "b", "c"} {
		o := mcpserver.Options{Remote: member{all, "home" + name}}
		urls = append(urls, serveHTTP(t, mcpserver.New(holder{newFake(), "task-" + name, &asks[i]}, o)).URL+"/mcp")
	}
	member{all, "slow"}.ServeForwarded(func(ctx context.Context, _ http.ResponseWriter, _ []byte) { <-ctx.Done() })
	get := func(url, task string) (int, string) {
		return post(t, url, sent("Caller", "ann", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tasks/get",
			"Mcp-Name", task),
			`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"`+task+`",`+metaOnly+`}}`)
	}
	for range 3 {
		for _, url := range urls {
			for _, name := range []string{"a", "b", "c"} {
				if status, got := get(url, "task-"+name); status != 200 ||
					!strings.Contains(got, `"taskId":"task-`+name+`"`) || !strings.Contains(got, `"by":"ann"`) {
					t.Errorf("task-%s: %d %s", name, status, got)
				}
			}
		}
	}
	for i := range asks { // 9 per server; to find another server's task: once all, then only the one that has it
		if n := asks[i].Load(); n > 9+2*3+2*2+6 {
			t.Errorf("server %d was asked %d times", i, n)
		}
	}
	if status, got := get(urls[0], "task-x"); !strings.Contains(got, `"node_lost"`) {
		t.Errorf("a task that the silent server may have: %d %s", status, got)
	}
	all.mu.Lock()
	delete(all.serves, "slow")
	all.mu.Unlock()
	before := all.count.Load()
	for _, id := range []string{"task-x", strings.Repeat("x", 1<<20)} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"` + id + `",` + metaOnly + `}}`
		if status, got := post(t, urls[0],
			sent("Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tasks/get", "Mcp-Name", "task-x"),
			body); id == "task-x" && !strings.Contains(got, `there is no task`) {
			t.Errorf("an unknown task: %d %s", status, got)
		}
	}
	if n := all.count.Load() - before; n != 2 {
		t.Errorf("%d requests were forwarded for unknown tasks", n)
	}
}

// An extension is asked about an unknown task only after the servers where the task may have begun, and never on
// behalf of another server.
func TestUnknownTaskIsAskedOfItsExtensionLast(t *testing.T) {
	var asks [2]atomic.Int64
	all := &group{serves: make(map[string]func(context.Context, http.ResponseWriter, []byte))}
	var urls []string
	for i, name := range []string{"a", "b"} {
		s := mcpserver.New(holder{newFake(), "task-" + name, &asks[i]},
			mcpserver.Options{Remote: member{all, "home" + name}})
		server := httptest.NewServer(s.Handler("x"))
		t.Cleanup(server.Close)
		urls = append(urls, server.URL)
	}
	for task, want := range map[string]string{
		"task-a": `"status":"working"`,
		"task-b": `"status":"working"`,
		"task-x": "the extension says no",
	} {
		for _, url := range urls {
			status, got := post(t, url,
				sent("Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tasks/get", "Mcp-Name", task),
				`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"`+task+`",`+metaOnly+`}}`)
			if !strings.Contains(got, want) {
				t.Errorf("%s: %d %s", task, status, got)
			}
		}
	}
}

// A caller who looks for tasks without pause does not delay others.
func TestManyTaskLookupsDelayNobody(t *testing.T) {
	all, asks := &group{
		serves: make(map[string]func(context.Context, http.ResponseWriter, []byte)),
	}, make([]atomic.Int64, 2)
	var urls []string
	for i, name := range []string{"a", "b"} {
		urls = append(urls, serveHTTP(t,
			mcpserver.New(holder{newFake(), "task-" + name, &asks[i]},
				mcpserver.Options{Remote: member{all, "home" + name}})).URL+"/mcp")
	}
	get := func(caller, task string) string {
		_, got := post(t, urls[0],
			sent("Caller", caller, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tasks/get", "Mcp-Name", task),
			`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"`+task+`",`+metaOnly+`}}`)
		return got
	}
	var flood sync.WaitGroup
	over, refused := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(refused) })
	for range 256 {
		flood.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				if strings.Contains(get("mallory", fmt.Sprint("task-", i)), "overloaded") {
					once()
				}
			}
		})
	}
	<-refused
	if got := get("ann", "task-b"); !strings.Contains(got, `"by":"ann"`) {
		t.Errorf("another caller: %s", got)
	}
	close(over)
	flood.Wait()
}

// balanced returns a URL whose requests go to the servers in turn.
func balanced(t testing.TB, servers []*httptest.Server) string {
	var turn atomic.Uint64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		servers[turn.Add(1)%uint64(len(servers))].Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

func balancedHTTP(t *testing.T, b mcpserver.Backend, o mcpserver.Options) mcp.Transport {
	_, servers := serveGroup(t, 2, b, o)
	return &mcp.StreamableClientTransport{Endpoint: balanced(t, servers) + "/mcp", HTTPClient: httpClient}
}

func balancedSSE(t *testing.T, b mcpserver.Backend, o mcpserver.Options) mcp.Transport {
	_, servers := serveGroup(t, 2, b, o)
	return &mcp.SSEClientTransport{Endpoint: balanced(t, servers) + "/sse", HTTPClient: httpClient}
}

// post posts a body and returns the status and body of the response.
func post(t *testing.T, url string, header http.Header, body string) (int, string) {
	t.Helper()
	r := do(t, http.MethodPost, url, header, body)
	return r.StatusCode, text(t, r)
}

const begin = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`

// sent builds headers from pairs.
func sent(pairs ...string) http.Header {
	h := make(http.Header)
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// Only the caller who opened a session may use it, on whichever server the requests arrive.
func TestSessionIsServedFromAnyServer(t *testing.T) {
	all, servers := serveGroup(t, 2, newFake(), mcpserver.Options{})
	here, there := servers[0].URL+"/mcp", servers[1].URL+"/mcp"
	r := do(t, http.MethodPost, here, sent("Caller", "ann"), begin)
	_ = text(t, r)
	id := r.Header.Get("Mcp-Session-Id")
	if !strings.HasSuffix(id, ".homea") {
		t.Fatalf("the session is %q", id)
	}
	ann := sent("Caller", "ann", "Mcp-Session-Id", id)
	list := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	_, want := post(t, here, ann, list)
	if status, got := post(t, there, ann, list); status != 200 || got != want {
		t.Errorf("at the other server: %d %s, want %s", status, got, want)
	}
	for what, header := range map[string]http.Header{
		"another caller": sent("Caller", "bob", "Mcp-Session-Id", id),
		"a guess":        sent("Caller", "ann", "Mcp-Session-Id", "AAAA.homea"),
		"no server":      sent("Caller", "ann", "Mcp-Session-Id", strings.TrimSuffix(id, "homea")+"homez"),
		"two dots":       sent("Caller", "ann", "Mcp-Session-Id", id+".homea"),
	} {
		if status, got := post(t, there, header, list); status != 404 {
			t.Errorf("%s: %d %s", what, status, got)
		}
	}
	if status, got := post(t, there, ann, `{"jsonrpc":`); status != 400 {
		t.Errorf("no JSON: %d %s", status, got)
	}
	if r := do(t, http.MethodDelete, there, ann, ""); r.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s", r.Status)
	}
	if status, _ := post(t, here, ann, list); status != 404 {
		t.Errorf("after its end: %d", status)
	}
	if all.count.Load() == 0 {
		t.Error("nothing was forwarded")
	}
}

// A pending call of 2026-07-28 continues on whichever server its client returns.
func TestPendingCallContinuesFromAnyServer(t *testing.T) {
	b := asking{newFake(), func(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
		return c.Client.Call(ctx, "roots/list", nil)
	}}
	all, servers := serveGroup(t, 2, b, mcpserver.Options{})
	here, there := servers[0].URL+"/mcp", servers[1].URL+"/mcp"
	first := callPending(t, here, "")
	if got := callPending(t, there, answers(first, `{"roots":[{"uri":"file:///a"}]}`)); !strings.Contains(string(got),
		`"uri":"file:///a"`) {
		t.Errorf("the outcome is %s", got)
	}
	if got := callPending(t, there,
		answers(first, `{"roots":[]}`)); string(rawjson.Get(rawjson.Get(got, "data"), "kind")) != `"node_lost"` {
		t.Errorf("once more: %s", got)
	}
	lost := callPending(t, there, `"requestState":"exthost-X.homez",`)
	if data := rawjson.Get(lost, "data"); string(rawjson.Get(data, "kind")) != `"node_lost"` ||
		string(rawjson.Get(data, "outcome")) != `"unknown"` {
		t.Errorf("of a server that is gone: %s", lost)
	}
	if all.count.Load() != 2 {
		t.Errorf("%d requests were carried", all.count.Load())
	}
}

// Only requests that belong to a session or a call are served for other servers.
func TestForwardedRequestsBeginNothing(t *testing.T) {
	b := newFake()
	all, _ := serveGroup(t, 1, b, mcpserver.Options{})
	serve := all.serves["homea"]
	modern := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{},` + canAsk + `}}`
	modernHeader := `"Mcp-Protocol-Version":["2026-07-28"],"Mcp-Method":["tools/call"],"Mcp-Name":["echo"]`
	for what, request := range map[string]string{
		"initialize": `{"endpoint":"mcp","method":"POST","header":{"Content-Type":["application/json"]}}` + "\n" +
			begin,
		"no session": `{"endpoint":"mcp","method":"POST","header":{"Content-Type":["application/json"]}}` + "\n" +
			`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"modern": `{"endpoint":"mcp","method":"POST","header":{"Content-Type":["application/json"],` +
			modernHeader + `}}` + "\n" + modern,
		"with a session": `{"endpoint":"mcp","method":"POST","header":{"Content-Type":["application/json"],"Mcp-Session-Id":["x"],` + modernHeader + `}}` + "\n" + modern,
		"with a state": `{"endpoint":"mcp","method":"POST","header":{"Content-Type":["application/json"],` +
			modernHeader + `}}` + "\n" + strings.Replace(modern, `"name"`, `"requestState":"exthost-X.homea","name"`,
			1),
		"a stream":       `{"endpoint":"sse","method":"GET"}` + "\n",
		"discover":       `{"endpoint":"mcp","method":"POST","header":{"Content-Type":["application/json"],"Mcp-Protocol-Version":["2026-07-28"],"Mcp-Method":["server/discover"]}}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + canAsk + `}}`,
		"listen":         `{"endpoint":"mcp","method":"POST","header":{"Content-Type":["application/json"],"Mcp-Protocol-Version":["2026-07-28"],"Mcp-Method":["subscriptions/listen"]}}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},` + canAsk + `}}`,
		"a notification": `{"endpoint":"mcp","method":"POST","header":{"Content-Type":["application/json"],"Mcp-Protocol-Version":["2026-07-28"]}}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/x","params":{` + canAsk + `}}`,
		"no head":        "rubbish",
		"no body":        `{"endpoint":"mcp","method":"POST"}`,
		"a method":       `{"endpoint":"mcp","method":"A B"}` + "\n",
		"a path":         `{"endpoint":"../x","method":"POST"}` + "\n",
	} {
		w := httptest.NewRecorder()
		serve(t.Context(), w, []byte(request))
		if body := w.Body.String(); w.Code < 400 && !strings.Contains(body, `"error"`) {
			t.Errorf("%s: %d %s", what, w.Code, body)
		}
	}
	select {
	case c := <-b.calls:
		t.Errorf("the backend was called: %+v", c)
	default:
	}
}

// A requestState made by the extension reaches the extension, even if it looks like one of this server's.
func TestStateOfAnExtensionStays(t *testing.T) {
	b := asking{newFake(), func(_ context.Context, c *protocol.Call) (json.RawMessage, error) {
		return json.RawMessage(`{"state":` + string(rawjson.Get(c.Params, "requestState")) + `}`), nil
	}}
	all, servers := serveGroup(t, 2, b, mcpserver.Options{})
	for _, state := range []string{`"eyJh.eyJi.c2ln"`, `"x.homeb"`} {
		if got := callPending(t, servers[0].URL+"/mcp",
			`"requestState":`+state+`,`); string(rawjson.Get(got, "state")) != state {
			t.Errorf("%s: %s", state, got)
		}
	}
	if all.count.Load() != 0 {
		t.Error("it was carried to another server")
	}
}

// Forwarded bodies are bounded, including those that stay in memory after the answer.
func TestForwardedBodiesAreBounded(t *testing.T) {
	b := newFake()
	const limit = 64 << 10
	_, servers := serveGroup(t, 2, b, mcpserver.Options{MaxBody: limit})
	stream := do(t, http.MethodGet, servers[0].URL+"/sse", nil, "")
	endpoint, _ := strings.CutPrefix(get(t, events(stream.Body), "the endpoint"), "endpoint ")
	there := servers[1].URL + endpoint
	if status, got := post(t, there, nil, initialize); status != http.StatusAccepted {
		t.Fatalf("initialize: %d %s", status, got)
	}
	taken, status := 0, http.StatusAccepted
	for ; status == http.StatusAccepted && taken < 20; taken++ {
		status, _ = post(t, there, nil,
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"hang","x":"%s"}}`, taken+9,
				strings.Repeat("x", limit*9/10)))
	}
	if status != http.StatusServiceUnavailable || taken > 10 {
		t.Errorf("%d bodies of %d bytes, the last is answered %d", taken, limit, status)
	}
}

// A response that breaks off is not mistaken for a complete one.
func TestForwardedResponseIsCut(t *testing.T) {
	all, servers := serveGroup(t, 1, newFake(), mcpserver.Options{})
	member{all, "away"}.ServeForwarded(func(_ context.Context, w http.ResponseWriter, request []byte) {
		switch {
		case bytes.Contains(request, []byte("stream")):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ": \n\n")
		case bytes.Contains(request, []byte("part")):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: message\ndata: {")
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0",`)
		}
		panic(errLost)
	})
	header := sent("Mcp-Session-Id", "x.away")
	_, got := post(t, servers[0].URL+"/mcp", header, `{"jsonrpc":"2.0","id":7,"method":"stream"}`)
	if !strings.Contains(got, `data: {"jsonrpc":"2.0","id":7,"error":{`) ||
		!strings.Contains(got, `"outcome":"unknown"`) {
		t.Errorf("an event stream ends with %q", got)
	}
	for _, what := range []string{"object", "part"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, servers[0].URL+"/mcp",
			strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"`+what+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header.Clone()
		r.Header.Set("Content-Type", "application/json")
		response, err := httpClient.Do(r)
		if err == nil {
			defer response.Body.Close()
			_, err = io.ReadAll(response.Body)
		}
		if err == nil {
			t.Errorf("%s: it ends well", what)
		}
	}
}
