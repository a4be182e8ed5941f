package httpserver

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/protocol"
)

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`

// routes are all routes, and a path without one.
var routes = []string{"/mcp", "/sse", "/message", "/message?sessionId=x", "/d/mcp", "/d/sse", "/d/message",
	"/d/message?sessionId=x",
	"/healthz", "/readyz", "/metrics", "/api/v1/status", "/api/v1/tools/x/call", "/ui/", metadataPath,
	metadataPath + "/mcp", "/", "/nothing/here"}

// one reports whether id is the extension in some of the routes.
func one(id string) bool { return id == "d" }

// foreign are headers of requests by foreign pages: with rebound names, and from other origins.
var foreign = []http.Header{
	{"Host": {"evil.com"}},
	{"Host": {"evil.com:7800"}},
	{"Host": {"localhost.evil.com"}},
	{"Host": {"box.lan.evil.com"}},
	{"Host": {"0.0.0.0:7800"}},
	{"Host": {"[::]:7800"}},
	{"Host": {"192.0.2.1"}},
	{"Host": {"127.1"}},
	{"Host": {"2130706433"}},
	{"Host": {"evil.com"}, "Origin": {"http://evil.com"}},
	{"Host": {"evil.com"}, "Sec-Fetch-Site": {"same-origin"}},
	{"Origin": {"https://evil.com"}},
	{"Origin": {"http://localhost:1"}},
	{"Origin": {"http://app.example"}},
	{"Origin": {"https://app.example.evil.com"}},
	{"Origin": {"null"}},
	{"Origin": {"https://evil.com"}, "Content-Type": {"text/plain"}},
	{"Sec-Fetch-Site": {"cross-site"}},
	{"Sec-Fetch-Site": {"same-site"}},
	{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}},
	{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.com"}},
	{"Origin": {"https://evil.com"}, "Access-Control-Request-Method": {"POST"}},
}

var methods = []string{http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodOptions, http.MethodHead}

func noMetrics(http.ResponseWriter, *http.Request) {}

func TestForeignRequestsReachNoRoute(t *testing.T) {
	b := newFake()
	addr := serve(t, Options{
		Backend:        b,
		Listen:         "0.0.0.0:7800",
		Metrics:        http.HandlerFunc(noMetrics),
		AllowedHosts:   []string{"box.lan"},
		Serves:         one,
		OAuth:          &OAuth{Resource: "https://box.lan/mcp", Issuer: "https://auth.example"},
		AllowedOrigins: []string{"https://app.example"},
	}, nil)
	for _, h := range foreign {
		for _, route := range routes {
			for _, method := range methods {
				r := send(t, method, "http://"+addr+route, h, initialize)
				if r.StatusCode != http.StatusForbidden || r.Header.Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s %s %v: %s", method, route, h, r.Status)
				}
				r.Body.Close()
			}
		}
	}
	if n := b.reached.Load(); n != 0 {
		t.Errorf("%d requests reached the backend", n)
	}
}

func TestOwnRequestsPass(t *testing.T) {
	addr := serve(t, Options{
		Backend:        newFake(),
		Listen:         "me.example:7800",
		AllowedHosts:   []string{"Box.LAN", "proxy.example:443"},
		AllowedOrigins: []string{"https://app.example"},
	}, nil)
	for _, h := range []http.Header{
		{},
		{"Host": {"localhost"}},
		{"Host": {"LOCALHOST.:1"}},
		{"Host": {"127.0.0.1:7800"}},
		{"Host": {"127.8.8.8"}},
		{"Host": {"[::1]:7800"}},
		{"Host": {"[::ffff:127.0.0.1]"}},
		{"Host": {"me.example"}},
		{"Host": {"box.lan:80"}},
		{"Host": {"proxy.example"}},
		{"Origin": {"http://" + addr}},
		{"Origin": {"http://" + addr}, "Sec-Fetch-Site": {"same-origin"}},
		{"Sec-Fetch-Site": {"none"}},
		{"Origin": {"https://app.example"}, "Sec-Fetch-Site": {"cross-site"}},
	} {
		if r := send(t, http.MethodGet, "http://"+addr+"/healthz", h, ""); r.StatusCode != http.StatusOK {
			t.Errorf("%v: %s", h, r.Status)
		}
	}
}

// Requests that client libraries never send.
func TestRequestsThatNoLibrarySends(t *testing.T) {
	addr := serve(t, Options{Backend: newFake()}, nil)
	for request, want := range map[string]int{
		"GET /healthz HTTP/1.0\r\n\r\n":                                                              403,
		"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n":                                           200,
		"GET /healthz HTTP/1.1\r\n\r\n":                                                              400,
		"GET http://evil.com/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n":                            403,
		"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.com\r\n\r\n":                         400,
		"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 70<<10) + "\r\n\r\n": 431,
	} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, request)
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || r.StatusCode != want {
			t.Errorf("%.80q: %v, %v; want %d", request, r, err, want)
		}
		c.Close()
	}
}

func TestAllowedOriginMayReadTheAnswer(t *testing.T) {
	addr := serve(t, Options{Backend: newFake(), Token: "secret", AllowedOrigins: []string{"https://app.example"}},
		func(l net.Listener) net.Listener { return abroad{l} })
	h := http.Header{
		"Origin":                         {"https://app.example"},
		"Access-Control-Request-Method":  {"POST"},
		"Access-Control-Request-Headers": {"authorization,mcp-session-id"},
	}
	r := send(t, http.MethodOptions, "http://"+addr+"/mcp", h, "")
	if r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
		r.Header.Get("Access-Control-Allow-Headers") != "authorization,mcp-session-id" {
		t.Errorf("preflight: %s %v", r.Status, r.Header)
	}
	h = http.Header{"Origin": {"https://app.example"}, "Authorization": {"Bearer secret"}}
	r = send(t, http.MethodPost, "http://"+addr+"/mcp", h, initialize)
	if r.StatusCode != http.StatusOK ||
		r.Header.Get("Access-Control-Expose-Headers") != "Mcp-Session-Id, WWW-Authenticate" {
		t.Errorf("initialize: %s %v", r.Status, r.Header)
	}
	delete(h, "Authorization")
	r = send(t, http.MethodPost, "http://"+addr+"/mcp", h, initialize)
	if r.StatusCode != http.StatusUnauthorized ||
		!strings.Contains(r.Header.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") {
		t.Errorf("initialize without the token: %s %v", r.Status, r.Header)
	}
}

func TestTokenIsRequired(t *testing.T) {
	const token = "correct-horse-battery"
	var log bytes.Buffer
	b := newFake()
	o := Options{
		Backend: b,
		Token:   token,
		Serves:  one,
		Metrics: http.HandlerFunc(noMetrics),
		Logger:  slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	t.Run("off loopback", func(t *testing.T) {
		addr := serve(t, o, func(l net.Listener) net.Listener { return abroad{l} })
		for _, shown := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Bearer correct-horse",
			"Bearer " + token + "x", "Bearer x" + token,
			"Basic " + token, token, "bearer\t" + token, "Bearer " + strings.ToUpper(token)} {
			for _, route := range routes {
				if (route == "/healthz" || route == "/readyz") && shown == "" {
					continue // they need no token
				}
				r := send(t, http.MethodGet, "http://"+addr+route, authorization(shown), "")
				if r.StatusCode != http.StatusUnauthorized || r.Header.Get("WWW-Authenticate") != "Bearer" {
					t.Errorf("%s with %q: %s", route, shown, r.Status)
				}
				r.Body.Close()
			}
		}
		for _, route := range []string{"/mcp?token=" + token, "/mcp?access_token=" + token} {
			if r := send(t, http.MethodGet, "http://"+addr+route, nil, ""); r.StatusCode != http.StatusUnauthorized {
				t.Errorf("token in the URL: %s", r.Status)
			}
		}
		for _, shown := range []string{"Bearer " + token, "bearer " + token, "BEARER  " + token} {
			if r := send(t, http.MethodGet, "http://"+addr+"/healthz", authorization(shown),
				""); r.StatusCode != http.StatusOK {
				t.Errorf("with %q: %s", shown, r.Status)
			}
		}
		if n := b.reached.Load(); n != 0 {
			t.Errorf("%d requests reached the backend", n)
		}
	})
	t.Run("on loopback", func(t *testing.T) {
		addr := serve(t, o, nil)
		for shown, want := range map[string]int{"Bearer " + token: 200, "Bearer wrong": 401} {
			if r := send(t, http.MethodGet, "http://"+addr+"/readyz", authorization(shown), ""); r.StatusCode != want {
				t.Errorf("with %q: %s, want %d", shown, r.Status, want)
			}
		}
		if r := send(t, http.MethodGet, "http://"+addr+"/healthz", nil, ""); r.StatusCode != http.StatusOK {
			t.Errorf("a probe: %s", r.Status)
		}
	})
	if strings.Contains(log.String(), "horse") {
		t.Errorf("the log knows the token:\n%s", &log)
	}
}

func authorization(shown string) http.Header {
	if shown == "" {
		return nil
	}
	return http.Header{"Authorization": {shown}}
}

func TestStaticTokenNamesTheCaller(t *testing.T) {
	b := newFake()
	url := "http://" + serve(t, Options{Backend: b, Token: "secret"}, nil) + "/mcp"
	h := authorization("Bearer secret")
	h.Set("Mcp-Session-Id", send(t, http.MethodPost, url, h, initialize).Header.Get("Mcp-Session-Id"))
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	if r := send(t, http.MethodPost, url, h, list); r.StatusCode != http.StatusOK {
		t.Errorf("its own session: %s", r.Status)
	}
	if caller := get(t, b.callers, "the call"); caller != "token" {
		t.Errorf("caller %q", caller)
	}
}

// headersFake is a backend that records the headers visible to policies.
type headersFake struct {
	*fake
	headers chan map[string]string
}

func (f headersFake) Do(ctx context.Context, _ *protocol.Call) (json.RawMessage, error) {
	f.headers <- protocol.HeadersOf(ctx)
	return json.RawMessage(`{"tools":[]}`), nil
}

// Policies see credentials that the host does not check itself, but never the host's own tokens.
func TestTokensOfTheHostReachNoPolicy(t *testing.T) {
	for token, want := range map[string]map[string]string{"": {"authorization": "Bearer theirs\ufffd"}, "secret": {}} {
		b := headersFake{newFake(), make(chan map[string]string, 1)}
		url := "http://" + serve(t, Options{Backend: b, Token: token}, nil) + "/mcp"
		h := authorization("Bearer " + cmp.Or(token, "theirs\xff"))
		h.Set("Mcp-Session-Id", send(t, http.MethodPost, url, h, initialize).Header.Get("Mcp-Session-Id"))
		send(t, http.MethodPost, url, h, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if diff := gocmp.Diff(want, get(t, b.headers, "the call")); diff != "" {
			t.Errorf("token %q: %s", token, diff)
		}
	}
}

func TestServeRefusesUnsafeOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no token":   {},
		"bad origin": {Token: "x", AllowedOrigins: []string{"app.example"}},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		o.Backend = newFake()
		if err := New(o).Serve(context.Background(), abroad{l}); protocol.KindOf(err) != protocol.ConfigInvalid {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := l.Accept(); err == nil {
			t.Errorf("%s: the listener is still open", name)
		}
	}
}

func TestListenReportsATakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = New(Options{Backend: newFake(), Listen: l.Addr().String()}).Listen(t.Context())
	if protocol.KindOf(err) != protocol.ConfigInvalid || !strings.Contains(fmt.Sprint(err), l.Addr().String()) {
		t.Errorf("%v", err)
	}
}
