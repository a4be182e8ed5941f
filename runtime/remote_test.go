//go:build unix

package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// remoteSpec returns the Spec of a server at url.
func remoteSpec(kind, url, version string) Spec {
	m := &manifest.Manifest{
		Plugin:    manifest.Plugin{ID: "faulty", Version: "1.0.0"},
		Transport: manifest.Transport{Kind: kind, URL: url, Protocol: manifest.ProtocolMCP, MCPVersion: version},
	}
	return Spec{
		ID:          "faulty",
		Dir:         os.TempDir(),
		Manifest:    m,
		Options:     m.Runtime.Resolve(m.Transport),
		HostVersion: "0.0.1",
	}
}

// serve runs h until the test ends and returns its URL.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// sdkHandler is a server of the official SDK over HTTP.
func sdkHandler(t testing.TB, kind string) http.Handler {
	s := newSDKServer("")
	t.Cleanup(func() {
		for session := range s.Sessions() {
			session.Close()
		}
	})
	get := func(*http.Request) *sdk.Server { return s }
	switch kind {
	case "sse":
		return sdk.NewSSEHandler(get, nil)
	case "stateless":
		return sdk.NewStreamableHTTPHandler(get,
			&sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	case "json":
		return sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{JSONResponse: true})
	}
	return sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)})
}

// TestRemoteSDKServer talks to servers of the official SDK over every transport.
func TestRemoteSDKServer(t *testing.T) {
	for name, c := range map[string]struct{ handler, kind, version, revision string }{
		"sessions, auto":    {"sessions", manifest.KindHTTP, manifest.MCPVersionAuto, protocol.MCP20251125},
		"sessions, pinned":  {"sessions", manifest.KindHTTP, protocol.MCP20251125, protocol.MCP20251125},
		"stateless, auto":   {"stateless", manifest.KindHTTP, manifest.MCPVersionAuto, protocol.MCP20260728},
		"stateless, pinned": {"stateless", manifest.KindHTTP, protocol.MCP20260728, protocol.MCP20260728},
		"sse":               {"sse", manifest.KindSSE, manifest.MCPVersionAuto, protocol.MCP20251125},
	} {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			s := remoteSpec(c.kind, serve(t, sdkHandler(t, c.handler)), c.version)
			changed := make(chan struct{}, 1)
			s.ToolsChanged = func() { signal(changed) }
			r := start(t, s)
			h := r.Handshake()
			if h.Protocol != "mcp" || h.ProtocolVersion != c.revision || h.Instructions != "ask kindly" ||
				r.Info().ProtocolVersion != c.revision {
				t.Errorf("handshake = %+v, want revision %s", h, c.revision)
			}
			if diff := cmp.Diff([]string{"add", "echo", "fail", "progress", "sleep"}, toolNames(h)); diff != "" {
				t.Error(diff)
			}
			sdkCalls(t, r)
			if _, err := r.request(protocol.MethodToolsCall, `{"name":"add","arguments":{}}`); err != nil {
				t.Fatal(err)
			}
			await(t, changed)
			if !slices.Contains(toolNames(r.Handshake()), "added") {
				t.Errorf("tools after the change: %v", toolNames(r.Handshake()))
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRemoteCredentials checks the headers, and the token of the environment or the current one of a file.
func TestRemoteCredentials(t *testing.T) {
	processtest.Leaks(t)
	var seen atomic.Pointer[http.Header]
	inner := sdkHandler(t, "sessions")
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost { // the stream of events is opened beside the first call
			seen.Store(&r.Header)
		}
		inner.ServeHTTP(w, r)
	}))
	s := remoteSpec(manifest.KindHTTP, url, manifest.MCPVersionAuto)
	s.Dir = t.TempDir()
	file := filepath.Join(s.Dir, "token")
	if err := os.WriteFile(file, []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Manifest.Transport.TokenFile = "token"
	s.Manifest.Transport.Headers = map[string]string{"X-Team": "blue"}
	r := start(t, s)
	if h := *seen.Load(); h.Get("Authorization") != "Bearer first" || h.Get("X-Team") != "blue" {
		t.Errorf("headers: %v", h)
	}
	if err := os.WriteFile(file, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.callTool(); err != nil {
		t.Error(err)
	}
	if h := *seen.Load(); h.Get("Authorization") != "Bearer second" {
		t.Errorf("headers after the token was replaced: %v", h)
	}
	r.stop()

	other := filepath.Join(t.TempDir(), "id_ed25519")
	if err := errors.Join(os.WriteFile(other, []byte("key-of-the-user"), 0o600), os.Remove(file),
		os.Symlink(other, file)); err != nil {
		t.Fatal(err)
	}
	wantContains(t, launch(t, s).end(protocol.ManifestInvalid).Error(), "token_file", "escapes")

	s = remoteSpec(manifest.KindHTTP, url, manifest.MCPVersionAuto)
	s.Manifest.Transport.TokenEnv = "API_TOKEN"
	wantContains(t, launch(t, s).end(protocol.ManifestInvalid).Error(), "API_TOKEN", "requires.env")
	s.Env = []string{"API_TOKEN=of the environment"}
	start(t, s)
	if h := *seen.Load(); h.Get("Authorization") != "Bearer of the environment" {
		t.Errorf("headers: %v", h)
	}
}

// refusing answers as the SDK does. Once fault is set, that handler answers the POSTs.
type refusing struct {
	inner http.Handler
	only  string // substring of the bodies that fault answers; "": all
	fault atomic.Pointer[http.HandlerFunc]
}

func (f *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if fault := f.fault.Load(); fault != nil && r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if r.Body = io.NopCloser(bytes.NewReader(body)); err == nil && bytes.Contains(body, []byte(f.only)) {
			(*fault)(w, r)
			return
		}
	}
	f.inner.ServeHTTP(w, r)
}

// holding is a server that signals when a call with argument held has arrived, and answers it once goOn is closed.
func holding(t *testing.T) (f *refusing, arrived, goOn chan struct{}) {
	inner := sdkHandler(t, "sessions")
	arrived, goOn = make(chan struct{}), make(chan struct{})
	held := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		close(arrived)
		<-goOn
		inner.ServeHTTP(w, q)
	})
	f = &refusing{inner: inner, only: "held-argument"}
	f.fault.Store(&held)
	return f, arrived, goOn
}

// TestRemoteFaults breaks one call in each way and expects the next call to work.
func TestRemoteFaults(t *testing.T) {
	status := func(code int, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(code)
			_, _ = w.Write([]byte("<p>no & such"))
		}
	}
	body := func(media, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			_, _ = w.Write([]byte(text))
		}
	}
	cut := func(media, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			_, _ = w.Write([]byte(text))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	for name, c := range map[string]struct {
		fault   http.HandlerFunc
		kind    protocol.Kind
		outcome string
		says    string
	}{
		"F5 401":       {status(401), protocol.ExtensionError, "", "token_env"},
		"F5 403":       {status(403), protocol.ExtensionError, "", "forbids"},
		"F5 429 Retry": {status(429, "Retry-After", "7"), protocol.NotReady, "", "fewer requests"},
		"F5 500":       {status(500), protocol.InvalidResponse, "unknown", "failed (500"},
		"F5 503":       {status(503), protocol.NotReady, "unknown", "failed (503"},
		"F5 503 Retry": {status(503, "Retry-After", "7"), protocol.NotReady, "", "failed (503"},
		"F6 redirect": {status(307, "Location", "https://example.org/mcp?secret=1"),
			protocol.ExtensionError, "", "https://example.org/mcp, which is not followed"},
		"F6 redirect of a method": {status(302, "Location", "/elsewhere"), protocol.ExtensionError, "",
			"is not followed"},
		"F7 html":    {body("text/html", "<html>"), protocol.InvalidResponse, "unknown", "text/html"},
		"F7 nothing": {status(202), protocol.InvalidResponse, "unknown", "202"},
		"F7 no answer": {body("application/json", `{"jsonrpc":"2.0","id":"other","result":{}}`),
			protocol.InvalidResponse, "unknown", "something else"},
		"F7 no JSON": {body("application/json", `{"jsonrpc":`), protocol.InvalidResponse, "unknown",
			"something else"},
		"F8 half an answer": {cut("application/json", `{"jsonrpc":"2.0"`), protocol.InvalidResponse, "unknown",
			"broke"},
		"F8 half an event": {cut("text/event-stream", "event: message\ndata: {"), protocol.InvalidResponse,
			"unknown", "ended before"},
		"F8 no event": {body("text/event-stream", ": \n\n"), protocol.InvalidResponse, "unknown",
			"ended before"},
		"F8 reset": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			protocol.InvalidResponse, "unknown", "connection broke"},
		"F9 giant answer": {body("application/json", strings.Repeat("x", 1<<20)), protocol.InvalidResponse,
			"unknown", "too large"},
		"F9 giant event": {body("text/event-stream", "data: "+strings.Repeat("x", 1<<20)),
			protocol.InvalidResponse, "unknown", "ended before"},
		"F9 endless fields": {body("text/event-stream",
			strings.Repeat("data: xxxxxxxxxxxxxxxxxxxxxxxx\n", 1<<15)), protocol.InvalidResponse, "unknown",
			"ended before"},
		"F10 hang": {func(_ http.ResponseWriter, r *http.Request) { read(r); <-r.Context().Done() },
			protocol.CallTimeout, "unknown", "call_timeout"},
		"F10 slow loris":           {drip("application/json"), protocol.CallTimeout, "unknown", "call_timeout"},
		"F10 slow loris of events": {drip("text/event-stream"), protocol.CallTimeout, "unknown", "call_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			f := &refusing{inner: sdkHandler(t, "sessions"), only: protocol.MethodToolsCall}
			s := remoteSpec(manifest.KindHTTP, serve(t, f), manifest.MCPVersionAuto)
			s.Options.MaxLineBytes = 1 << 19
			s.Options.CallTimeout = patience
			if c.kind == protocol.CallTimeout {
				s.Options.CallTimeout, s.Options.MaxCallTimeout = 200*time.Millisecond, 200*time.Millisecond
			}
			r := start(t, s)
			f.fault.Store(&c.fault)
			_, err := r.callTool()
			e := wantKind(t, err, c.kind)
			if e.Outcome != c.outcome || !strings.Contains(e.Message, c.says) || strings.Contains(e.Message, "secret") {
				t.Errorf("error %q, outcome %q; want %q with outcome %q", e.Message, e.Outcome, c.says, c.outcome)
			}
			if strings.Contains(name, "Retry") && e.RetryAfter != 7*time.Second {
				t.Errorf("retry after %v", e.RetryAfter)
			}
			f.fault.Store(nil)
			began := time.Now()
			_, err = r.callTool()
			for c.kind == protocol.CallTimeout && protocol.KindOf(err) == c.kind && time.Since(began) < patience {
				_, err = r.callTool() // a busy machine may take longer than the short call_timeout
			}
			if err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

// read reads the body. Only then does the server notice that the client has gone.
func read(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

// drip writes single bytes forever.
func drip(media string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		read(r)
		w.Header().Set("Content-Type", media)
		beat := time.NewTicker(5 * time.Millisecond)
		defer beat.Stop()
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte(" "))
			_ = http.NewResponseController(w).Flush()
			<-beat.C
		}
	}
}

// TestRemoteHandshakeFaults connects to servers that cannot be used.
func TestRemoteHandshakeFaults(t *testing.T) {
	nobody := "http://127.0.0.1:" + processtest.FreePorts(t, 1)[0]
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>"))
	})
	elsewhere := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("event: endpoint\ndata: https://example.org/steal\n\n"))
	})
	for name, c := range map[string]struct {
		kind, url string
		want      protocol.Kind
		says      string
	}{
		"nobody there":      {manifest.KindHTTP, nobody, protocol.SpawnFailed, "cannot be reached"},
		"nobody there, sse": {manifest.KindSSE, nobody, protocol.SpawnFailed, "cannot be reached"},
		"no name": {manifest.KindHTTP, "http://no-such-host.invalid/?key=secret", protocol.SpawnFailed,
			"cannot be reached"},
		"a web page":      {manifest.KindHTTP, serve(t, page), protocol.HandshakeInvalid, "text/html"},
		"a web page, sse": {manifest.KindSSE, serve(t, page), protocol.HandshakeInvalid, "text/html"},
		"nothing": {manifest.KindHTTP, serve(t, http.NotFoundHandler()), protocol.HandshakeInvalid,
			"check the url"},
		"credentials": {manifest.KindHTTP,
			serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) })),
			protocol.HandshakeInvalid, "token_env"},
		"of the older transport": {manifest.KindHTTP,
			serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(405) })),
			protocol.HandshakeInvalid, `kind = "sse"`},
		"endpoint elsewhere": {manifest.KindSSE, serve(t, elsewhere), protocol.HandshakeInvalid, "another place"},
	} {
		t.Run(name, func(t *testing.T) {
			e := launch(t, remoteSpec(c.kind, c.url, manifest.MCPVersionAuto)).end(c.want)
			if !strings.Contains(e.Message, c.says) || strings.Contains(e.Message, "secret") {
				t.Errorf("%q does not say %q", e.Message, c.says)
			}
		})
	}
}

// TestRemoteGone uses a server that forgets the session, and one that stops, while calls are in flight.
func TestRemoteGone(t *testing.T) {
	t.Run("session", func(t *testing.T) {
		processtest.Leaks(t)
		gone := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Session-Id") == "" {
				t.Error("the session is not stated")
			}
			w.WriteHeader(http.StatusNotFound)
		})
		f := &refusing{inner: sdkHandler(t, "sessions")}
		s := remoteSpec(manifest.KindHTTP, serve(t, f), manifest.MCPVersionAuto)
		s.goneGrace = time.Millisecond // for the call in flight, which is never answered
		r := start(t, s)
		arrived := make(chan struct{})
		hang := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			read(r)
			close(arrived)
			<-r.Context().Done()
		})
		f.fault.Store(&hang)
		sleeping := r.goCall(context.Background(), request(`{"name":"echo","arguments":{}}`, ""))
		await(t, arrived)
		f.fault.Store(&gone)
		_, err := r.callTool()
		if e := wantKind(t, err, protocol.ChildExited); e.Outcome != "" {
			t.Errorf("the call that was turned away has outcome %q, so it would not be sent again", e.Outcome)
		}
		if e := wantKind(t, await(t, sleeping).err, protocol.ChildExited); e.Outcome != "unknown" {
			t.Errorf("the call in flight has outcome %q", e.Outcome)
		}
		r.end(protocol.ChildExited)
	})
	for _, kind := range []string{manifest.KindHTTP, manifest.KindSSE} {
		t.Run("server, "+kind, func(t *testing.T) {
			processtest.Leaks(t)
			handler := map[string]string{manifest.KindHTTP: "sessions", manifest.KindSSE: "sse"}[kind]
			server := httptest.NewServer(sdkHandler(t, handler))
			r := start(t, remoteSpec(kind, server.URL, manifest.MCPVersionAuto))
			server.Listener.Close()
			server.CloseClientConnections()
			eventually(t, func() bool { // the open connection may fail first
				_, err := r.callTool()
				return protocol.KindOf(err) == protocol.ChildExited
			})
			r.end(protocol.ChildExited)
			server.CloseClientConnections()
			server.Close()
		})
	}
}

// A restarted server reports in its own words that it does not know the session. The run then ends, and the next one
// opens a new session. A request refused with 4xx was not processed, so every caller may send it again.
func TestRemoteSessionLost(t *testing.T) {
	answers := func(code int, media, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var m struct{ ID json.RawMessage }
			_ = json.NewDecoder(r.Body).Decode(&m)
			w.Header().Set("Content-Type", media)
			w.WriteHeader(code)
			_, _ = w.Write([]byte(strings.ReplaceAll(body, "$id", string(m.ID))))
		}
	}
	const text, raw = "text/plain", "application/json"
	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		kind    protocol.Kind
		outcome string
	}{
		"404": {answers(404, text, "Session not found"), protocol.ChildExited, ""},
		"400 of the SDK": {answers(400, raw,
			`{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`), protocol.ChildExited, ""},
		"400 before a start": {answers(400, raw,
			`{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":$id}`),
			protocol.ChildExited, ""},
		"400 in words": {answers(400, text, "Invalid or missing session"), protocol.ChildExited, ""},
		"410":          {answers(410, text, "gone"), protocol.ChildExited, ""},
		"503":          {answers(503, raw, `{"error":"unknown session"}`), protocol.NotReady, "unknown"},
		"500":          {answers(500, text, "KeyError"), protocol.InvalidResponse, "unknown"},
		"200 with an error": {answers(200, raw,
			`{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":$id}`),
			protocol.ExtensionError, ""},
		"200 without an id": {answers(200, raw,
			`{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`),
			protocol.ExtensionError, ""},
		"200 with an event": {answers(200, "text/event-stream",
			"data: {\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32001,\"message\":\"Session not found\"},\"id\":$id}\n\n"),
			protocol.ExtensionError, ""},
	} {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			f := &refusing{inner: sdkHandler(t, "sessions")}
			s := remoteSpec(manifest.KindHTTP, serve(t, f), manifest.MCPVersionAuto)
			s.goneGrace = patience
			r := start(t, s)
			callers := 1
			if c.kind == protocol.ChildExited && name != "404" { // that ends the run without a ping
				callers = 3
			}
			arrived, all := make(chan struct{}, callers), make(chan struct{})
			together := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				body, _ := io.ReadAll(q.Body)
				q.Body = io.NopCloser(bytes.NewReader(body))
				if bytes.Contains(body, []byte(protocol.MethodToolsCall)) {
					arrived <- struct{}{}
					<-all
				}
				c.answer(w, q)
			})
			f.fault.Store(&together)
			var calls []<-chan future
			for range callers {
				calls = append(calls, r.goCall(context.Background(), request(`{"name":"echo","arguments":{}}`, "")))
			}
			for range callers {
				await(t, arrived)
			}
			close(all)
			for _, one := range calls {
				if e := wantKind(t, await(t, one).err, c.kind); e.Outcome != c.outcome {
					t.Errorf("outcome %q, want %q: %v", e.Outcome, c.outcome, e)
				}
			}
			r.end(protocol.ChildExited)
		})
	}
}

// lent is a login with one token. It counts its calls.
type lent struct{ renewed, refused atomic.Int32 }

func (*lent) Token(context.Context) (string, error) { return "mine", nil }

func (l *lent) Renew(_ context.Context, refused string, _ []string) (string, error) {
	l.renewed.Add(1)
	return refused, nil
}

func (l *lent) Refused(string) error {
	l.refused.Add(1)
	return protocol.Errorf(protocol.RequirementMissing, "sign in again")
}

func (*lent) Needed() string { return "" }

// TestRemoteSessionRefusedAsCredentials has a server answer 401 to calls. Only if the same credentials work in another
// session has the server lost the session: then the run ends, and nobody has to sign in.
func TestRemoteSessionRefusedAsCredentials(t *testing.T) {
	call := func(_ string, body []byte) bool { return bytes.Contains(body, []byte(protocol.MethodToolsCall)) }
	for name, c := range map[string]struct {
		refuses func(session string, body []byte) bool // reports whether a request gets 401
		always  bool                                   // refuses applies to sessions opened later too
		lost    bool
	}{
		"the session is lost": {
			refuses: func(session string, _ []byte) bool { return session != "" },
			lost:    true,
		},
		"the credentials are refused": {refuses: func(string, []byte) bool { return true }},
		"they are refused after a start": {
			refuses: func(session string, _ []byte) bool { return session != "" },
			always:  true,
		},
		"the call wants more of them": {refuses: call},
	} {
		for _, signedIn := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, signed in: %v", name, signedIn), func(t *testing.T) {
				processtest.Leaks(t)
				inner := sdkHandler(t, "sessions")
				var on atomic.Bool
				var session atomic.Pointer[string] // the run's session
				var left atomic.Int32              // number of trial sessions that were not ended
				url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					body, _ := io.ReadAll(q.Body)
					q.Body = io.NopCloser(bytes.NewReader(body))
					id := q.Header.Get("Mcp-Session-Id")
					if signedIn && q.Header.Get("Authorization") != "Bearer mine" {
						t.Errorf("a request with the credentials %q", q.Header.Get("Authorization"))
					}
					if !on.Load() {
						if id != "" {
							session.CompareAndSwap(nil, &id)
						}
						inner.ServeHTTP(w, q)
						return
					}
					if own := *session.Load(); q.Method == http.MethodPost && (id == own || id == "" || c.always) &&
						c.refuses(id, body) {
						w.WriteHeader(http.StatusUnauthorized)
						return
					}
					switch {
					case q.Method == http.MethodDelete:
						left.Add(-1)
					case id == "":
						left.Add(1)
					}
					inner.ServeHTTP(w, q)
				}))
				s, login := remoteSpec(manifest.KindHTTP, url, manifest.MCPVersionAuto), new(lent)
				if signedIn {
					s.Login = login
				}
				r := start(t, s)
				on.Store(true)
				_, err := r.callTool()
				switch {
				case c.lost:
					if e := wantKind(t, err, protocol.ChildExited); e.Outcome != "" {
						t.Errorf("outcome %q", e.Outcome)
					}
					r.end(protocol.ChildExited)
				case signedIn:
					wantKind(t, err, protocol.RequirementMissing)
				default:
					wantContains(t, wantKind(t, err, protocol.ExtensionError).Error(), "credentials")
				}
				if got := login.renewed.Load() > 0; got != (signedIn && !c.lost) {
					t.Errorf("another token was asked for: %v", got)
				}
				if n := left.Load(); n != 0 {
					t.Errorf("%d sessions of trials are left", n)
				}
				if !c.lost {
					on.Store(false)
					if _, err := r.callTool(); err != nil {
						t.Errorf("the next call in the same session: %v", err)
					}
				}
			})
		}
	}
}

// TestRemoteSessionLostBeforeACall has a restarted server answer 401 to the reopened stream, the first request after a
// restart. The session is lost, the credentials are good, and nobody has to sign in.
func TestRemoteSessionLostBeforeACall(t *testing.T) {
	processtest.Leaks(t)
	inner := sdkHandler(t, "sessions")
	streaming, restart := make(chan struct{}, 1), make(chan struct{})
	var session atomic.Pointer[string] // before the restart
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		id := q.Header.Get("Mcp-Session-Id")
		if own := session.Load(); own != nil && *own == id {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if q.Method != http.MethodGet {
			inner.ServeHTTP(w, q)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		streaming <- struct{}{}
		<-restart
		session.Store(&id)
	}))
	s, login := remoteSpec(manifest.KindHTTP, url, manifest.MCPVersionAuto), new(lent)
	s.Login = login
	r := start(t, s)
	await(t, streaming)
	close(restart)
	r.end(protocol.ChildExited)
	if renewed, refused := login.renewed.Load(), login.refused.Load(); renewed+refused > 0 {
		t.Errorf("another token was asked for %d times, and %d refused", renewed, refused)
	}
}

// TestRemoteRefusedCredentialsCostNoStorm has a server refuse the credentials of a run, even to end trial sessions.
// Many calls with these credentials open one trial session, not one each.
func TestRemoteRefusedCredentialsCostNoStorm(t *testing.T) {
	const calls = 20
	for name, opens := range map[string]bool{"a server that refuses all": false, "a server that opens sessions": true} {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			inner := sdkHandler(t, "sessions")
			var on atomic.Bool
			var requests atomic.Int32
			r := start(t, remoteSpec(manifest.KindHTTP,
				serve(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					if !on.Load() {
						inner.ServeHTTP(w, q)
						return
					}
					if q.Method != http.MethodGet { // the session's own stream connects at a time of its own
						requests.Add(1)
					}
					if opens && q.Header.Get("Mcp-Session-Id") == "" {
						inner.ServeHTTP(w, q)
						return
					}
					w.WriteHeader(http.StatusUnauthorized)
				})), manifest.MCPVersionAuto))
			on.Store(true)
			for range calls {
				_, err := r.callTool()
				wantContains(t, wantKind(t, err, protocol.ExtensionError).Error(), "credentials")
			}
			const trial = 4 // a ping, an initialize, a ping and a DELETE
			if n := requests.Load(); n > calls+trial {
				t.Errorf("%d requests for %d calls", n, calls)
			}
			on.Store(false)
		})
	}
}

// A refusal of a single request leaves the session and the calls in flight alone.
func TestRemoteRefusalKeepsSession(t *testing.T) {
	for _, code := range []int{
		http.StatusBadRequest,
		http.StatusConflict,
		http.StatusGone,
		http.StatusInternalServerError,
		http.StatusServiceUnavailable,
	} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			processtest.Leaks(t)
			f := &refusing{inner: sdkHandler(t, "sessions"), only: "refused-argument"}
			r := start(t, remoteSpec(manifest.KindHTTP, serve(t, f), manifest.MCPVersionAuto))
			refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
			f.fault.Store(&refuse)
			_, err := r.request(protocol.MethodToolsCall, `{"name":"echo","arguments":{"a":"refused-argument"}}`)
			if err == nil || protocol.KindOf(err) == protocol.ChildExited {
				t.Errorf("the refused call: %v", err)
			}
			if _, err := r.callTool(); err != nil {
				t.Errorf("the next call in the same session: %v", err)
			}
		})
	}
}

// TestRemoteErrorWithoutAnID has the server report the failure of one of two calls. The error has no id, but is on that
// call's stream, so that call fails with the server's error. The error is logged too.
func TestRemoteErrorWithoutAnID(t *testing.T) {
	for name, c := range map[string]struct {
		code              int
		media, head, tail string
	}{
		"an object":        {http.StatusOK, "application/json", "", ""},
		"an event":         {http.StatusOK, "text/event-stream", "data: ", "\n\n"},
		"an error status":  {http.StatusConflict, "application/json", "", ""},
		"a failed request": {http.StatusInternalServerError, "application/json", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			waits, arrived, goOn := holding(t)
			f := &refusing{inner: waits, only: "refused-argument"}
			s := remoteSpec(manifest.KindHTTP, serve(t, f), manifest.MCPVersionAuto)
			log := logTo(&s)
			r := start(t, s)
			refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.media)
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w,
					c.head+`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"the database is away"}}`+
						c.tail)
			})
			f.fault.Store(&refuse)
			other := r.goCall(t.Context(), request(`{"name":"echo","arguments":{"a":"held-argument"}}`, ""))
			await(t, arrived)
			_, err := r.request(protocol.MethodToolsCall, `{"name":"echo","arguments":{"a":"refused-argument"}}`)
			if e := wantKind(t, err, protocol.ExtensionError); e.Code != -32603 {
				t.Errorf("%d: %v", e.Code, e)
			}
			wantContains(t, err.Error(), "the database is away")
			wantContains(t, log.String(), "the database is away")
			close(goOn)
			if got := await(t, other); got.err != nil {
				t.Errorf("the other call: %v", got.err)
			}
		})
	}
}

// TestRemoteErrorOnTheStandaloneStream has the server report an error without id on the stream that carries no answers,
// while one call is in flight. The call is still answered.
func TestRemoteErrorOnTheStandaloneStream(t *testing.T) {
	processtest.Leaks(t)
	f, arrived, goOn := holding(t)
	s := remoteSpec(manifest.KindHTTP, serve(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodGet {
			f.ServeHTTP(w, q)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-arrived:
			_, _ = io.WriteString(w,
				`data: {"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"the disk is full"}}`+"\n\n")
			_ = http.NewResponseController(w).Flush()
			<-q.Context().Done()
		case <-q.Context().Done():
		}
	})), manifest.MCPVersionAuto)
	log := logTo(&s)
	r := start(t, s)
	call := r.goCall(t.Context(), request(`{"name":"echo","arguments":{"a":"held-argument"}}`, ""))
	await(t, arrived)
	eventually(t, func() bool { return strings.Contains(log.String(), "the disk is full") })
	close(goOn)
	if got := await(t, call); got.err != nil {
		t.Error(got.err)
	}
}

// TestRemoteResumes breaks connections during and between calls. Messages sent in the meantime still arrive.
func TestRemoteResumes(t *testing.T) {
	processtest.Leaks(t)
	inner := sdkHandler(t, "sessions")
	var mu sync.Mutex
	var cutters []context.CancelFunc
	var resumed atomic.Int32
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-Id") != "" {
			resumed.Add(1)
		}
		if r.Method != http.MethodGet && !strings.Contains(r.Header.Get("X-Cut"), "yes") {
			inner.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		mu.Lock()
		cutters = append(cutters, cancel)
		mu.Unlock()
		inner.ServeHTTP(w, r.WithContext(ctx))
	}))
	r := start(t, remoteSpec(manifest.KindHTTP, url, protocol.MCP20251125))
	eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(cutters) > 0 })
	mu.Lock()
	cutters[0]()
	mu.Unlock()
	eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(cutters) > 1 })
	if _, err := r.callTool(); err != nil {
		t.Error(err)
	}
}

// TestRemoteCallResumes ends the stream of a call after an event with an id, as servers do to be polled.
func TestRemoteCallResumes(t *testing.T) {
	processtest.Leaks(t)
	f := &refusing{}
	var id atomic.Pointer[json.RawMessage]
	polls := make(chan string, 4)
	inner := sdkHandler(t, "sessions")
	f.inner = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last := r.Header.Get("Last-Event-Id")
		if r.Method != http.MethodGet || last == "" {
			inner.ServeHTTP(w, r)
			return
		}
		polls <- last
		w.Header().Set("Content-Type", "text/event-stream")
		if last == "one" {
			_, _ = w.Write([]byte("id: two\nretry: 1\ndata: " +
				"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n"))
			return
		}
		_, _ = w.Write([]byte(`data: {"jsonrpc":"2.0","id":` + string(*id.Load()) + `,"result":{"content":[]}}` +
			"\n\n"))
	})
	r := start(t, remoteSpec(manifest.KindHTTP, serve(t, f), protocol.MCP20251125))
	poll := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var m struct{ ID json.RawMessage }
		if err := json.NewDecoder(q.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		id.Store(&m.ID)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("id: one\nretry: 1\ndata: \n\n"))
	})
	f.fault.Store(&poll)
	if raw, err := r.callTool(); err != nil || string(raw) != `{"content":[]}` {
		t.Errorf("%s, %v", raw, err)
	}
	if a, b := await(t, polls), await(t, polls); a != "one" || b != "two" {
		t.Errorf("took up after %q and %q", a, b)
	}
}

// eventually polls for a condition that has no signal.
func eventually(t testing.TB, is func() bool) {
	t.Helper()
	beat := time.NewTicker(time.Millisecond)
	defer beat.Stop()
	limit := time.After(patience)
	for !is() {
		select {
		case <-beat.C:
		case <-limit:
			t.Fatal("waited in vain")
		}
	}
}
