package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func TestSessionLifecycle(t *testing.T) {
	b := newFake()
	url := serveHTTP(t, mcpserver.New(b, mcpserver.Options{})).URL + "/mcp"
	id := openSession(t, url, nil)
	named := http.Header{"Mcp-Session-Id": {id}, "Mcp-Protocol-Version": {"2025-11-25"}}
	known := mcpserver.PublicID(id)
	if s := get(t, b.attached, "the session"); s.ID != known || known == id || s.Version != "2025-11-25" {
		t.Errorf("attached %+v", s)
	}
	if got := text(t, do(t, http.MethodPost, url, named, ping)); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("ping: %s", got)
	}
	if r := do(t, http.MethodPost, url, named, initialize); r.StatusCode != http.StatusOK ||
		!strings.Contains(text(t, r), "-32600") {
		t.Errorf("a second initialize: %s", r.Status)
	}
	if r := do(t, http.MethodDelete, url, named, ""); r.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s", r.Status)
	}
	if got := get(t, b.detached, "the session to be detached"); got != known {
		t.Errorf("detached %s", got)
	}
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		if r := do(t, method, url, named, ping); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s after DELETE: %s", method, r.Status)
		}
	}
}

// A session keeps its client's capabilities and clientInfo, so their length is bounded.
func TestInitializeRefusesLongClients(t *testing.T) {
	url := serveHTTP(t, mcpserver.New(newFake(), mcpserver.Options{})).URL + "/mcp"
	for _, format := range []string{`"capabilities":{"experimental":{"x":%q}}`, `"clientInfo":{"name":%q}`} {
		for size, status := range map[int]string{30 << 10: `"result"`, 70 << 10: `"code":-32602`} {
			params := fmt.Sprintf(`{"protocolVersion":"2025-11-25",`+format+`}`, strings.Repeat("x", size))
			r := do(t, http.MethodPost, url, nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":`+params+`}`)
			if got := text(t, r); !strings.Contains(got, status) {
				t.Errorf("%d bytes in %s: %.200s", size, format, got)
			}
		}
	}
}

func TestPostRefusals(t *testing.T) {
	server := mcpserver.New(newFake(), mcpserver.Options{MaxBody: 1000})
	url := serveHTTP(t, server).URL + "/mcp"
	session := openSession(t, url, nil)
	for name, test := range map[string]struct {
		header, value, body string
		status              int
		want                string
	}{
		"content type":    {"Content-Type", "text/plain", ping, 415, ""},
		"compressed":      {"Content-Encoding", "gzip", ping, 415, ""},
		"not compressed":  {"Content-Encoding", "identity", ping, 200, `"result"`},
		"F3 body":         {"", "", `{"x":"` + strings.Repeat("x", 1000) + `"}`, 413, ""},
		"batch":           {"", "", `[` + ping + `]`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600`},
		"no JSON":         {"", "", `{"jsonrpc`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700`},
		"no message":      {"", "", `{"jsonrpc":"2.0","id":4}`, 400, `{"jsonrpc":"2.0","id":4,"error":{"code":-32600`},
		"duplicate id":    {"", "", `{"jsonrpc":"2.0","id":4,"id":5,"method":"ping"}`, 400, `"code":-32600`},
		"no session":      {"Mcp-Session-Id", "", ping, 400, ""},
		"unknown session": {"Mcp-Session-Id", "AAAAAAAAAAAAAAAAAAAAAAAAAA", ping, 404, ""},
		"unknown version": {"Mcp-Protocol-Version", "1999-01-01", ping, 400, `"code":-32022`},
		"empty":           {"", "", ``, 400, `"code":-32700`},
		"fine":            {"Content-Type", "application/json; charset=utf-8", ping, 200, `"result":{}`},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{"Mcp-Session-Id": {session}, "Content-Type": {"application/json"}}
			if test.header != "" {
				h.Set(test.header, test.value)
			}
			r := do(t, http.MethodPost, url, h, test.body)
			if got := text(t, r); r.StatusCode != test.status || !strings.Contains(got, test.want) {
				t.Errorf("%s: %s", r.Status, got)
			}
		})
	}
}

func TestSessionOfAnotherCallerIsUnknown(t *testing.T) {
	server := serveHTTP(t, mcpserver.New(newFake(), mcpserver.Options{}))
	url := server.URL + "/mcp"
	id := openSession(t, url, http.Header{"Caller": {"alice"}})
	for _, caller := range []string{"mallory", "", "alice"} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			if caller == "alice" && method == http.MethodGet {
				continue // the stream would stay open
			}
			r := do(t, method, url, http.Header{"Caller": {caller}, "Mcp-Session-Id": {id}}, ping)
			if theirs := r.StatusCode == http.StatusNotFound; theirs == (caller == "alice") {
				t.Errorf("%s %s by %q: %s", method, "of alice's session", caller, r.Status)
			}
		}
	}
	stream := do(t, http.MethodGet, server.URL+"/sse", http.Header{"Caller": {"alice"}}, "")
	endpoint, _ := strings.CutPrefix(get(t, events(stream.Body), "the endpoint"), "endpoint ")
	for caller, status := range map[string]int{"mallory": 404, "": 404, "alice": 202} {
		if r := do(t, http.MethodPost, server.URL+endpoint, http.Header{"Caller": {caller}},
			ping); r.StatusCode != status {
			t.Errorf("POST to alice's stream by %q: %s", caller, r.Status)
		}
	}
	// A session id is valid only on the transport that issued it.
	_, sse, _ := strings.Cut(endpoint, "sessionId=")
	r := do(t, http.MethodPost, url, http.Header{"Caller": {"alice"}, "Mcp-Session-Id": {sse}}, ping)
	if r.StatusCode != http.StatusNotFound {
		t.Errorf("an SSE session over streamable HTTP: %s", r.Status)
	}
}

func TestVanishedClientEndsItsCall(t *testing.T) {
	for _, kind := range []string{"session", "stateless"} {
		t.Run(kind, func(t *testing.T) {
			b := newFake()
			url := serveHTTP(t, mcpserver.New(b, mcpserver.Options{})).URL + "/mcp"
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hang",` + metaOnly + `}}`
			h := mirrored(body)
			if kind == "session" {
				h = http.Header{"Mcp-Session-Id": {openSession(t, url, nil)}}
			}
			ctx, cancel := context.WithCancel(t.Context())
			request, _ := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
			request.Header = h
			request.Header.Set("Content-Type", "application/json")
			failed := make(chan error, 1)
			go func() { _, err := httpClient.Do(request); failed <- err }()
			get(t, b.calls, "the call")
			cancel()
			get(t, failed, "the client to give up")
			get(t, b.ended, "the call to be cancelled")
		})
	}
}

// A new session evicts an idle one, but never one in use.
func TestNewSessionEvictsAnIdleOne(t *testing.T) {
	b := newFake()
	server := serveHTTP(t, mcpserver.New(b, mcpserver.Options{MaxSessions: 2}))
	url := server.URL + "/mcp"
	idle := openSession(t, url, nil)
	listen := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},` + metaOnly + `}}`
	do(t, http.MethodPost, url, mirrored(listen), listen)
	busy := openSession(t, url, nil)
	if r := do(t, http.MethodPost, url, http.Header{"Mcp-Session-Id": {idle}},
		ping); r.StatusCode != http.StatusNotFound {
		t.Errorf("the session that had to go: %s", r.Status)
	}
	do(t, http.MethodGet, url, http.Header{"Mcp-Session-Id": {busy}}, "") // the stream keeps the session in use
	for method, at := range map[string]string{http.MethodPost: "/mcp", http.MethodGet: "/sse"} {
		r := do(t, method, server.URL+at, nil, initialize)
		if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
			t.Errorf("%s %s: %s", method, at, r.Status)
		}
	}
	if r := do(t, http.MethodPost, url, mirrored(listen), listen); r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one subscription too many: %s", r.Status)
	}
	do(t, http.MethodDelete, url, http.Header{"Mcp-Session-Id": {busy}}, "")
	openSession(t, url, nil)
}

// A caller who opens too many sessions loses its own first.
func TestManySessionsCostTheirOwner(t *testing.T) {
	url := serveHTTP(t, mcpserver.New(newFake(), mcpserver.Options{MaxSessions: 3})).URL + "/mcp"
	alice, mallory := http.Header{"Caller": {"alice"}}, http.Header{"Caller": {"mallory"}}
	alice.Set("Mcp-Session-Id", openSession(t, url, alice.Clone()))
	first := openSession(t, url, mallory)
	for range 10 {
		openSession(t, url, mallory)
	}
	if r := do(t, http.MethodPost, url, alice, ping); r.StatusCode != http.StatusOK {
		t.Errorf("alice's session: %s", r.Status)
	}
	mallory = http.Header{"Caller": {"mallory"}, "Mcp-Session-Id": {first}}
	if r := do(t, http.MethodPost, url, mallory, ping); r.StatusCode != http.StatusNotFound {
		t.Errorf("the first of mallory's: %s", r.Status)
	}
}

func TestRefusedSessionTakesNoPlace(t *testing.T) {
	b := newFake()
	url := serveHTTP(t, mcpserver.New(b, mcpserver.Options{MaxSessions: 1})).URL + "/mcp"
	b.refuse = protocol.Errorf(protocol.Rejected, "not you")
	for range 3 {
		r := do(t, http.MethodPost, url, nil, initialize)
		if got := text(t, r); r.Header.Get("Mcp-Session-Id") != "" || !strings.Contains(got, `"code":-32031`) {
			t.Errorf("initialize: %s %s", r.Status, got)
		}
	}
	b.refuse = nil
	openSession(t, url, nil)
}

// slow is a backend whose Describe waits, as if an extension were starting.
type slow struct {
	*fake
	starting chan error // receives nil at the start of the wait, then the error that ended it
}

func (s slow) Describe(ctx context.Context, _ *protocol.Session) (d protocol.Description, err error) {
	s.starting <- nil
	<-ctx.Done()
	s.starting <- ctx.Err()
	return d, ctx.Err()
}

func TestInitializeEndsWithItsClient(t *testing.T) {
	b := slow{newFake(), make(chan error, 2)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(initialize))
	r.Header.Set("Content-Type", "application/json")
	served := make(chan struct{})
	go func() {
		defer close(served)
		mcpserver.New(b, mcpserver.Options{}).Handler("").ServeHTTP(httptest.NewRecorder(), r)
	}()
	get(t, b.starting, "the start")
	cancel() // as net/http does when the client disconnects
	if err := get(t, b.starting, "the wait to end"); err == nil {
		t.Error("the start was waited for")
	}
	get(t, served, "the handler")
	get(t, b.detached, "the session to be detached")
}

// An unused session ends; a running request or an open stream counts as use.
func TestIdleSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFake()
		s := mcpserver.New(b, mcpserver.Options{SessionIdle: time.Hour})
		defer s.Close()
		post := func(ctx context.Context, id, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Mcp-Session-Id", id)
			w := httptest.NewRecorder()
			s.Handler("").ServeHTTP(w, r)
			return w
		}
		unused := post(t.Context(), "", initialize).Header().Get("Mcp-Session-Id")
		id := post(t.Context(), "", initialize).Header().Get("Mcp-Session-Id")
		for range 3 {
			if w := post(t.Context(), id, ping); w.Code != http.StatusOK {
				t.Fatalf("after 59 minutes: %d", w.Code)
			}
			time.Sleep(59 * time.Minute)
		}
		if got := <-b.detached; got != mcpserver.PublicID(unused) { // unused for a minute
			t.Errorf("detached %s, want the one that was never used", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		post(ctx, id, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hang"}}`)
		cancel()
		if w := post(t.Context(), id, ping); w.Code != http.StatusOK {
			t.Errorf("after a call of three hours: %d", w.Code)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 3*time.Hour)
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/mcp", nil)
		r.Header.Set("Mcp-Session-Id", id)
		s.Handler("").ServeHTTP(httptest.NewRecorder(), r)
		cancel()
		if w := post(t.Context(), id, ping); w.Code != http.StatusOK {
			t.Errorf("after a stream of three hours: %d", w.Code)
		}
		time.Sleep(time.Hour + time.Second)
		if w := post(t.Context(), id, ping); w.Code != http.StatusNotFound {
			t.Errorf("after an hour of nothing: %d", w.Code)
		}
		synctest.Wait()
		if got := <-b.detached; got != mcpserver.PublicID(id) {
			t.Errorf("detached %s", got)
		}
	})
}

func TestSessionStream(t *testing.T) {
	b := newFake()
	s := mcpserver.New(b, mcpserver.Options{})
	url := serveHTTP(t, s).URL + "/mcp"
	id := openSession(t, url, nil)
	named := http.Header{"Mcp-Session-Id": {id}}
	client := get(t, b.attached, "the session").Client

	if _, err := client.Call(t.Context(), "roots/list", nil); err == nil {
		t.Error("a client without a stream was asked")
	}
	b.announce() // waits for the stream
	stream := do(t, http.MethodGet, url, named, "")
	if got := stream.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("GET: %s %s", stream.Status, got)
	}
	heard := events(stream.Body)
	if got := get(t, heard, "list_changed"); got != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
		t.Errorf("heard %s", got)
	}
	answered := make(chan string, 1)
	go func() {
		answer, err := client.Call(context.Background(), "roots/list", nil)
		answered <- string(answer) + errorText(err)
	}()
	request := get(t, heard, "the request")
	asked := string(rawjson.Get([]byte(request), "id"))
	if request != `{"jsonrpc":"2.0","id":`+asked+`,"method":"roots/list"}` {
		t.Errorf("request %s", request)
	}
	r := do(t, http.MethodPost, url, named,
		`{"jsonrpc":"2.0","id":`+asked+`,"result":{"roots":[12345678901234567890]}}`)
	if got := get(t, answered, "the answer"); got != `{"roots":[12345678901234567890]}` ||
		r.StatusCode != http.StatusAccepted {
		t.Errorf("answer %s, %s", got, r.Status)
	}

	second := events(do(t, http.MethodGet, url, named, "").Body)
	if _, more := <-heard; more {
		t.Error("the first stream goes on beside the second")
	}
	b.announce()
	get(t, second, "list_changed on the second stream")
	s.Close()
	if _, more := <-second; more {
		t.Error("the stream outlives Close")
	}
	if r := do(t, http.MethodPost, url, nil, initialize); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("initialize after Close: %s", r.Status)
	}
}

func TestSessionNotifiesTheBackend(t *testing.T) {
	b := newFake()
	url := serveHTTP(t, mcpserver.New(b, mcpserver.Options{})).URL + "/mcp"
	h := http.Header{"Mcp-Session-Id": {openSession(t, url, nil)}}
	r := do(t, http.MethodPost, url, h, `{"jsonrpc":"2.0","method":"notifications/x","params":{"a": 1}}`)
	if call := get(t, b.calls, "the notification"); !call.Notify || string(call.Params) != `{"a": 1}` {
		t.Errorf("%+v", call)
	}
	if got := text(t, r); r.StatusCode != http.StatusAccepted || got != "" {
		t.Errorf("%s %q", r.Status, got)
	}
}

// Pretty-printed bodies lose only their line breaks.
func TestLineBreaksDoNotReachTheBackend(t *testing.T) {
	b := newFake()
	url := serveHTTP(t, mcpserver.New(b, mcpserver.Options{})).URL + "/mcp"
	h := http.Header{"Mcp-Session-Id": {openSession(t, url, nil)}}
	do(t, http.MethodPost, url, h,
		"{\n \"jsonrpc\": \"2.0\",\r\n \"id\": 1, \"method\": \"x/y\", \"params\": {\n  \"n\": 12345678901234567890, "+
			"\"s\": \"a\\nb\"\n }\n}\n")
	if call := get(t, b.calls, "the call"); string(call.Params) != `{"n":12345678901234567890,"s":"a\nb"}` {
		t.Errorf("params %s", call.Params)
	}
}

// Clients that accept no event stream get only the answer.
func TestClientThatAcceptsNoStream(t *testing.T) {
	url := serveHTTP(t, mcpserver.New(newFake(), mcpserver.Options{})).URL + "/mcp"
	h := http.Header{"Mcp-Session-Id": {openSession(t, url, nil)}, "Accept": {"application/json"}}
	r := do(t, http.MethodPost, url, h, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}`)
	if got := text(t, r); r.Header.Get("Content-Type") != "application/json" || !strings.Contains(got, "-32603") {
		t.Errorf("%s %s", r.Header.Get("Content-Type"), got)
	}
}

// again is a client that reuses an id as soon as the first byte of the answer arrives.
type again struct {
	*httptest.ResponseRecorder
	use func()
}

func (a *again) Write(b []byte) (int, error) {
	if use := a.use; use != nil {
		a.use = nil
		use()
	}
	return a.ResponseRecorder.Write(b)
}

func TestIDsAreFreeOnceAnswered(t *testing.T) {
	s := mcpserver.New(newFake(), mcpserver.Options{})
	defer s.Close()
	post := func(w http.ResponseWriter, id, body string) {
		r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Mcp-Session-Id", id)
		s.Handler("").ServeHTTP(w, r)
	}
	opened := httptest.NewRecorder()
	post(opened, "", initialize)
	id := opened.Header().Get("Mcp-Session-Id")
	second := httptest.NewRecorder()
	post(&again{httptest.NewRecorder(), func() { post(second, id, ping) }}, id, ping)
	if got := second.Body.String(); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("the second ping: %s", got)
	}
}

func TestNewPanicsOverBadCapabilities(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New took capabilities that are no object")
		}
	}()
	mcpserver.New(newFake(), mcpserver.Options{Capabilities: json.RawMessage(`[]`)})
}

// A session states whether its client is on another machine, also behind a proxy.
func TestSessionOfAnotherMachine(t *testing.T) {
	b := newFake()
	url := serveHTTP(t, mcpserver.New(b, mcpserver.Options{})).URL + "/mcp"
	for _, from := range []string{"", "192.0.2.1"} {
		h := http.Header{}
		if from != "" {
			h.Set("X-Forwarded-For", from)
		}
		openSession(t, url, h)
		if s := get(t, b.attached, "the session"); s.Remote != (from != "") {
			t.Errorf("from %q: %+v", from, s)
		}
		c := postingClient(t, url, h, true)
		c.request(`1`, "x/custom", `"a":1`)
		if call := get(t, b.calls, "the call"); call.Session.Remote != (from != "") {
			t.Errorf("from %q, without a session: %+v", from, call.Session)
		}
	}
}
