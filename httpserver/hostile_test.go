package httpserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/config"
)

// exchange sends raw bytes over a new connection, and returns the statuses of the answers until the server closes the
// connection or stops answering.
func exchange(t *testing.T, addr, raw string) (statuses []int, rest string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	go func() { _, _ = io.WriteString(c, raw); _ = c.(*net.TCPConn).CloseWrite() }()
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			left, _ := io.ReadAll(in)
			return statuses, string(left)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		statuses, rest = append(statuses, r.StatusCode), rest+string(body)
	}
}

// A request that parsers could read differently is refused, and a request smuggled behind it is not answered.
func TestSmuggledRequestsAreNotAnswered(t *testing.T) {
	b := newFake()
	addr := serve(t, Options{Backend: b}, nil)
	const inner = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	head := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for name, raw := range map[string]string{
		"two lengths":       head + "Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}" + inner,
		"length and chunks": head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
		"chunks, misspelt":  head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + inner,
		"chunks twice":      head + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + inner,
		"chunks, then identity": head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" +
			inner,
		"a space before a colon":  head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + inner,
		"a folded header":         head + "X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
		"a negative length":       head + "Content-Length: -1\r\n\r\n{}",
		"a signed length":         head + "Content-Length: +2\r\n\r\n{}",
		"a chunk that never fits": head + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n",
		"a chunk of no size":      head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
		"a bare line feed":        "GET /healthz HTTP/1.1\nHost: localhost\nHost: evil.com\n\n",
		"a NUL in a header":       "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
		"another protocol":        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"a proxy's request":       "CONNECT evil.com:443 HTTP/1.1\r\nHost: evil.com:443\r\n\r\n",
		"a request of nothing":    " / \r\n\r\n",
	} {
		statuses, _ := exchange(t, addr, raw)
		for _, status := range statuses {
			if status < 400 {
				t.Errorf("%s: %v", name, statuses)
			}
		}
		if len(statuses) > 1 {
			t.Errorf("%s: %d answers, %v", name, len(statuses), statuses)
		}
	}
	// On a persistent connection, an unread body is not taken for a request.
	refused := "POST /nothing/here HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + fmt.Sprint(len(inner)) +
		"\r\n\r\n" + inner
	if statuses, _ := exchange(t, addr, refused); len(statuses) != 1 || statuses[0] != http.StatusNotFound {
		t.Errorf("the body of a refused request: %v", statuses)
	}
	if n := b.reached.Load(); n != 0 {
		t.Errorf("%d requests reached the backend", n)
	}
}

// Bodies with no MCP message or with several, on every endpoint for POSTs.
func TestHostileBodiesAreRefused(t *testing.T) {
	b := newFake()
	o := Options{Backend: b, Serves: one}
	o.MCP.MaxBody = 1 << 20
	addr := "http://" + serve(t, o, nil)
	session := send(t, http.MethodPost, addr+"/mcp", nil, initialize).Header.Get("Mcp-Session-Id")
	reached := b.reached.Load()
	deep := func(n int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":` + strings.Repeat("[",
			n) + strings.Repeat("]", n) + `}}`
	}
	for name, body := range map[string]string{
		"nothing":        "",
		"a batch":        `[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]`,
		"an empty batch": `[]`,
		"two messages":   `{"jsonrpc":"2.0","id":1,"method":"tools/list"}{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
		"two lines": `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n" +
			`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
		"two methods":        `{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}`,
		"two ids":            `{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}`,
		"two params":         `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"},"params":{"name":"b"}}`,
		"an escaped twin":    `{"jsonrpc":"2.0","id":1,"method":"tools/list","\u006dethod":"tools/call"}`,
		"another case":       `{"jsonrpc":"2.0","id":1,"Method":"tools/list"}`,
		"another version":    `{"jsonrpc":"1.0","id":1,"method":"tools/list"}`,
		"no version":         `{"id":1,"method":"tools/list"}`,
		"a call and answer":  `{"jsonrpc":"2.0","id":1,"method":"tools/list","result":{}}`,
		"an id of null":      `{"jsonrpc":"2.0","id":null,"method":"tools/list"}`,
		"an id that is one":  `{"jsonrpc":"2.0","id":{"a":1},"method":"tools/list"}`,
		"an id of a list":    `{"jsonrpc":"2.0","id":[1],"method":"tools/list"}`,
		"an endless id":      `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1<<19) + `","method":"tools/list"}`,
		"params of a list":   `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}`,
		"a method that's no": `{"jsonrpc":"2.0","id":1,"method":{"a":1}}`,
		"too deep":           deep(20_000),
		"deep and unclosed":  `{"jsonrpc":"2.0","id":1,"method":"x","params":` + strings.Repeat(`{"a":`, 100_000),
		"no UTF-8":           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"a\":\"\xff\xfe\"}}",
		"a byte order mark":  "\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"a trailing comma":   `{"jsonrpc":"2.0","id":1,"method":"tools/list",}`,
		"a comment":          `{"jsonrpc":"2.0","id":1,/**/"method":"tools/list"}`,
	} {
		for _, route := range []string{"/mcp", "/d/mcp"} {
			h := http.Header{"Accept": {"application/json, text/event-stream"}}
			if route == "/mcp" {
				h.Set("Mcp-Session-Id", session)
			}
			r := send(t, http.MethodPost, addr+route, h, body)
			answer, _ := io.ReadAll(r.Body)
			if r.StatusCode < 400 && !strings.Contains(string(answer), `"error"`) || r.StatusCode >= 500 {
				t.Errorf("%s on %s: %s %.200s", name, route, r.Status, answer)
			}
			if len(answer) > 4096 {
				t.Errorf("%s on %s: answered with %d bytes", name, route, len(answer))
			}
		}
	}
	for _, kind := range []string{
		"",
		"text/plain",
		"application/x-www-form-urlencoded",
		"multipart/form-data; boundary=x",
		"application/jsonp",
		"text/json",
		"application/json, text/plain",
		"application/json;charset=utf-7;a=(",
	} {
		r := send(t, http.MethodPost, addr+"/mcp", http.Header{"Content-Type": {kind}, "Mcp-Session-Id": {session}},
			`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if r.StatusCode != http.StatusUnsupportedMediaType && r.StatusCode != http.StatusBadRequest {
			t.Errorf("Content-Type %q: %s", kind, r.Status)
		}
	}
	if n := b.reached.Load() - reached; n != 0 {
		t.Errorf("%d requests reached the backend", n)
	}
}

// No spelling of a path reaches more than its plain form.
func TestSpellingsOfAPathReachNoMore(t *testing.T) {
	b := newFake()
	addr := serve(t, Options{
		Backend:       b,
		Token:         "clients",
		OperatorToken: "own",
		Serves:        one,
		Metrics:       http.HandlerFunc(noMetrics),
		Admin: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "the operator's")
		}),
	}, nil)
	for _, path := range []string{
		"//api/v1/status", "/./api/v1/status", "/ui/../api/v1/status", "/ui/..%2fapi/v1/status",
		"/ui/%2e%2e/api/v1/status", "/ui/%2e%2e%2fapi/v1/status", "/ui\\..\\api/v1/status",
		"/ui/..;/api/v1/status", "/healthz/../api/v1/status", "/healthz%2f..%2fapi/v1/status",
		"/healthz%00/api/v1/status", "/API/v1/status", "/api%2fv1/status", "/api/v1/status%20", "/api/v1/status/",
		"/ui//../mcp", "/ui/../mcp", "/ui/%2e%2e/mcp", "/mcp/", "//mcp", "/d//mcp", "/d/mcp/", "/d/./mcp", "/%64/mcp",
		"/ui/../d/mcp", "/healthz/../metrics", "*", "/ui?/../api/v1/status", "http://localhost/api/v1/status",
	} {
		for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "CONNECT", "PUT", "TRACE", "BREW"} {
			raw := method + " " + path +
				" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
				fmt.Sprint(len(initialize)) + "\r\n\r\n" + initialize
			statuses, body := exchange(t, addr, raw)
			if len(statuses) != 1 || strings.Contains(body, "the operator's") || strings.Contains(body, "serverInfo") {
				t.Errorf("%s %s: %v %.100s", method, path, statuses, body)
			}
		}
	}
	if n := b.reached.Load(); n != 0 {
		t.Errorf("%d requests reached the backend", n)
	}
}

// Another client's Last-Event-ID gives no access to its stream.
func TestEventIDsOfOthersGiveNoAccess(t *testing.T) {
	b := newFake()
	addr := "http://" + serve(t, Options{Backend: b}, nil)
	open := func() string {
		return send(t, http.MethodPost, addr+"/mcp", nil, initialize).Header.Get("Mcp-Session-Id")
	}
	mine, theirs := open(), open()
	for _, h := range []http.Header{
		{"Last-Event-Id": {"1"}},
		{"Last-Event-Id": {theirs}},
		{"Last-Event-Id": {theirs + "_0"}, "Mcp-Session-Id": {""}},
		{"Mcp-Session-Id": {theirs + "x"}},
		{"Mcp-Session-Id": {strings.ToLower(theirs)}},
		{"Mcp-Session-Id": {" " + theirs[1:]}},
		{"Mcp-Session-Id": {theirs + ", " + mine}},
	} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			if r := send(t, method, addr+"/mcp", h, ""); r.StatusCode != http.StatusNotFound &&
				r.StatusCode != http.StatusBadRequest {
				t.Errorf("%s %v: %s", method, h, r.Status)
			}
		}
	}
	for _, id := range []string{mine, theirs} { // both still work
		if r := send(t, http.MethodPost, addr+"/mcp", http.Header{"Mcp-Session-Id": {id}},
			`{"jsonrpc":"2.0","id":1,"method":"ping"}`); r.StatusCode != http.StatusOK {
			t.Errorf("ping: %s", r.Status)
		}
	}
}

// Headers set only the variables chosen by the operator. Invalid values are refused before a process starts.
func TestHeadersSetOnlyChosenVariables(t *testing.T) {
	addr, h := bridged(t, config.Destinations{
		"d": {Type: config.DestinationStdio, EnvFromHeaders: map[string]string{"X-Api-Key": "API_KEY"}},
	}, Options{})
	for _, value := range []string{"a\r\nX-Evil: 1", "a\nLD_PRELOAD=/tmp/x.so", "a\x00LD_PRELOAD=/tmp/x.so", "\x7f"} {
		raw := "POST /d/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Api-Key: " + value +
			"\r\nContent-Length: " + fmt.Sprint(len(initialize)) + "\r\n\r\n" + initialize
		statuses, body := exchange(t, addr, raw)
		if strings.Contains(value, "\r\n") { // two headers; the second one sets no variable
			continue
		}
		if len(statuses) != 1 || statuses[0] != http.StatusBadRequest {
			t.Errorf("%q: %v %s", value, statuses, body)
		}
	}
	for name, want := range map[string]string{
		"Path":              "",
		"Ld_preload":        "",
		"Ld-Preload":        "",
		"Api_key":           "",
		"Exthost_state_dir": "",
	} {
		s := openSession(t, "http://"+addr+"/d/mcp", http.Header{name: {"/tmp/evil"}})
		_, answer := s.call("environ", `{"text":"`+strings.ToUpper(name)+`"}`)
		if got := text(t, answer); got == "/tmp/evil" {
			t.Errorf("%s became a variable, want %q", name, want)
		}
	}
	if n := len(h.Status().Destinations[0].Instances); n == 0 {
		t.Error("nothing was tried")
	}
}
