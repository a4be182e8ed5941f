package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// upstream is a remote MCP server with sessions that the test can take away.
type upstream struct {
	t       *testing.T
	address string
	unknown http.HandlerFunc // answers requests of unknown sessions

	mu       sync.Mutex
	server   *http.Server
	served   chan error
	away     http.HandlerFunc // answers every request while away; nil: available
	sessions map[string]bool
	// gets a token for each call, which then waits for the end of its request; nil: calls return
	entered chan struct{}
	ran     map[string]int // executed calls by argument
}

func newUpstream(t *testing.T, unknown http.HandlerFunc) *upstream {
	u := &upstream{
		t:        t,
		address:  "127.0.0.1:" + processtest.FreePorts(t, 1)[0],
		unknown:  unknown,
		ran:      make(map[string]int),
		sessions: make(map[string]bool),
	}
	t.Cleanup(u.stop)
	return u
}

// set changes the server's behaviour.
func (u *upstream) set(change func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change()
}

// start listens, without any sessions.
func (u *upstream) start() {
	u.t.Helper()
	l, err := net.Listen("tcp", u.address)
	if err != nil {
		u.t.Fatal(err)
	}
	u.set(func() {
		u.server, u.served, u.away, u.entered = &http.Server{Handler: u}, make(chan error, 1), nil, nil
		clear(u.sessions)
		u.server.SetKeepAlivesEnabled(false) // otherwise a request on a connection that just ended has no known outcome
		server, served := u.server, u.served
		go func() { served <- server.Serve(l) }()
	})
}

// stop breaks all connections and listens no more.
func (u *upstream) stop() {
	if u.server == nil {
		return
	}
	_ = u.server.Close()
	<-u.served
	u.server = nil
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			ProtocolVersion string
			Arguments       struct{ Text string }
		}
	}
	if r.Method == http.MethodPost {
		_ = json.NewDecoder(r.Body).Decode(&m)
	}
	answer := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
	session := r.Header.Get("Mcp-Session-Id")
	u.mu.Lock()
	away, entered, known := u.away, u.entered, u.sessions[session]
	if away == nil && m.Method == protocol.MethodInitialize {
		session = fmt.Sprintf("session-%d-%p", len(u.sessions), r)
		u.sessions[session] = true
	}
	if away == nil && known && m.Method == protocol.MethodToolsCall {
		u.ran[m.Params.Arguments.Text]++
	}
	u.mu.Unlock()
	switch {
	case away != nil:
		away(w, r)
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.Method == protocol.MethodInitialize:
		w.Header().Set("Mcp-Session-Id", session)
		answer(`{"protocolVersion":"` + m.Params.ProtocolVersion +
			`","capabilities":{"tools":{}},"serverInfo":{"name":"upstream","version":"1"}}`)
	case !known:
		u.unknown(w, r)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == protocol.MethodToolsList:
		answer(`{"tools":[{"name":"say","inputSchema":{"type":"object"}}]}`)
	case m.Method == protocol.MethodToolsCall && entered != nil:
		entered <- struct{}{}
		<-r.Context().Done()
	case m.Method == protocol.MethodToolsCall:
		answer(`{"content":[{"type":"text","text":"said"}]}`)
	default:
		answer(`{}`)
	}
}

// answersWith returns a handler with a fixed response.
func answersWith(status int, media, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// hangs never responds.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// manifest returns an extension with background retries so rare that only calls cause reconnects.
func (u *upstream) manifest() string {
	return "[transport]\nurl = \"http://" + u.address + "/mcp\"\n[runtime]\nstart_timeout = \"5m\"\n" +
		"[runtime.restart]\nbase_backoff = \"10m\"\nmax_backoff = \"10m\"\n"
}

// ways are how servers can be away, and how they reject unknown sessions.
var ways = map[string]struct {
	unknown http.HandlerFunc // response to unknown sessions
	away    http.HandlerFunc // response while away; nil: refuses connections
	hangs   bool             // never responds while away
	unsure  bool             // its errors leave open whether the call was executed
}{
	"404": {
		unknown: answersWith(404, "text/plain", "Session not found"),
		away:    answersWith(404, "text/plain", "no backend"),
	},
	"400": {
		unknown: answersWith(400, "application/json",
			`{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`),
		away: answersWith(400, "text/html", "<h1>Bad Request</h1>"),
	},
	"400 text": {
		unknown: answersWith(400, "text/plain", "Invalid or missing session ID"),
		away:    answersWith(400, "text/plain", "starting"),
	},
	"410": {unknown: answersWith(410, "text/plain", "gone"), away: answersWith(410, "text/plain", "gone")},
	"503": {
		unknown: answersWith(404, "text/plain", "Session not found"),
		away:    answersWith(503, "text/plain", "no healthy upstream"),
	},
	"503 of a session": {
		unknown: answersWith(503, "application/json", `{"error":"unknown session"}`),
		away:    answersWith(503, "text/plain", "starting"),
		unsure:  true,
	},
	"200 of a session": {
		unknown: answersWith(200, "application/json",
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`),
		away:   answersWith(502, "text/html", "<h1>Bad Gateway</h1>"),
		unsure: true,
	},
	"refused": {unknown: answersWith(404, "text/plain", "Session not found")},
	"hanging": {unknown: answersWith(400, "text/plain", "no session"), away: hangs, hangs: true},
}

// The first call after the server is back succeeds, however it was away and whenever it went, and no call is
// executed twice.
func TestCallsSurviveRestartsOfUpstreams(t *testing.T) {
	processtest.Leaks(t)
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, way.unknown)
			f := hosttest.NewFolder(t).Add("up", u.manifest())
			leaves := func() { // the server is away from now on
				u.stop()
				if way.away != nil {
					u.start()
					u.set(func() { u.away = way.away })
				}
			}
			returns := func() { u.stop(); u.start() }
			leaves()
			h := f.Open(exthost.Options{Mode: exthost.Mode{Background: true}})
			n := 0
			callWithin := func(limit time.Duration) error {
				n++
				text := fmt.Sprint("call ", n)
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				_, err := h.Call(ctx, "ext_up_say", map[string]any{"text": text})
				var ran int
				u.set(func() { ran = u.ran[text] })
				e, _ := errors.AsType[*protocol.Error](err)
				if ran > 1 || err == nil && ran != 1 || ran > 0 && e != nil && e.Outcome == "" {
					t.Errorf("%s was carried out %d times, and its outcome is %v", text, ran, err)
				}
				return err
			}
			call := func() error { return callWithin(hosttest.Patience) }
			fails := func() {
				t.Helper()
				limit := hosttest.Patience
				if way.hangs {
					limit = hosttest.Patience / 200
				}
				if err := callWithin(limit); err == nil {
					t.Error("a call of a server that is away works")
				} else if kind := protocol.KindOf(err); kind == protocol.Failed {
					t.Errorf("a call of a server that is away: %v", err)
				}
			}
			works := func(when string) {
				t.Helper()
				err := call()
				// the caller decides whether to send it again
				if err != nil && way.unsure && when != "before the host" {
					if e, _ := errors.AsType[*protocol.Error](err); e.Outcome != "unknown" &&
						e.Kind != protocol.ExtensionError {
						t.Errorf("%s: %v with outcome %q", when, err, e.Outcome)
					}
					hosttest.Eventually(t, "another call works", func() bool { return call() == nil })
					return
				}
				if err != nil {
					t.Errorf("away %s: the next call: %v", when, err)
				}
			}
			if !way.hangs {
				if err := h.Ready(hosttest.Deadline(t)); err != nil {
					t.Fatal(err)
				}
				hosttest.Eventually(t, "the status has the time of the next try", func() bool {
					s := hosttest.StatusOf(t, h, "up")
					return s.State == "restarting" && s.Reason != "" && s.Instances[0].NextRetry != nil
				})
				if n := len(startDiagnostics(h, "up")); n != 1 {
					t.Errorf("%d diagnostics of the start", n)
				}
			}
			fails()
			returns()
			works("before the host")
			hosttest.Eventually(t, "the diagnostic of the start goes",
				func() bool { return len(startDiagnostics(h, "up")) == 0 })
			returns()
			works("between two calls")
			leaves()
			fails()
			returns()
			works("for some time")
			entered := make(chan struct{}, 1)
			u.set(func() { u.entered = entered })
			done := make(chan error, 1)
			go func() { done <- call() }()
			<-entered
			returns()
			if err := <-done; err == nil {
				t.Error("the call that the server had when it was restarted works")
			} else if e, _ := errors.AsType[*protocol.Error](err); e.Outcome != "unknown" {
				t.Errorf("the call that the server had when it was restarted: %v with outcome %q", err, e.Outcome)
			}
			works("during a call")
		})
	}
}

// startDiagnostics returns the diagnostics about extensions that did not start.
func startDiagnostics(h *exthost.Host, id string) (list []protocol.Diagnostic) {
	for _, d := range h.Status().Diagnostics {
		if d.Extension == id && strings.Contains(d.Message, "did not start") {
			list = append(list, d)
		}
	}
	return list
}
