//go:build unix

package runtime

import (
	"context"
	"encoding/json"
	"net/http"
	goruntime "runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// The handshakes of legacy and modern MCP servers.
const (
	legacyHello = `init {"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}; until notifications/initialized; until tools/list; answer {"tools":[]}; `
	modernHello = `init {"supportedVersions":["2026-07-28"],"capabilities":{}}; until tools/list; answer {"tools":[]}; `
)

// callUntilEnd calls from n goroutines until the run has ended, and counts the outcomes by kind. Each call has the
// deadline, unless that is 0.
func (r *trial) callUntilEnd(n int, deadline time.Duration, params string) map[protocol.Kind]int {
	kinds := make(map[protocol.Kind]int)
	var mu sync.Mutex
	var wg sync.WaitGroup
	over := make(chan struct{})
	for range n {
		wg.Go(func() {
			for {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				if deadline > 0 {
					ctx, cancel = context.WithTimeout(context.Background(), deadline)
				}
				_, err := r.Call(ctx, &Request{Method: protocol.MethodToolsCall, Params: json.RawMessage(params)})
				cancel()
				mu.Lock()
				kinds[protocol.KindOf(err)]++
				mu.Unlock()
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	select {
	case err := <-r.served:
		r.served <- err
	case <-time.After(patience):
		r.t.Error("the run did not end")
	}
	close(over)
	wg.Wait()
	return kinds
}

// TestHungIsReplaced has children hang in many ways. Each run must end, and each call have one outcome.
func TestHungIsReplaced(t *testing.T) {
	fault(t)
	for name, c := range map[string]struct {
		script   string
		version  string // MCP version; "": native
		deadline time.Duration
		edit     func(*Spec)
		floods   bool // the child writes without end
	}{
		"reads nothing":                         {script: "init echo; hang"},
		"reads and never answers":               {script: "init echo; eof"},
		"stopped by a signal":                   {script: "init echo; kill 19"},
		"stops within a line":                   {script: `init echo; half {"jsonrpc"; hang`},
		"stops when two calls are in flight":    {script: "init echo; read; answer; read; read; hang"},
		"answers out of order, then stops":      {script: "init echo; read; read; last; last; hang"},
		"writes lines that are no frames":       {script: "init echo; mumble"},
		"writes a line that is none, endlessly": {script: "init echo; spin", floods: true},
		"writes empty lines as fast as it can":  {script: "init echo; blank", floods: true},
		"its callers leave early":               {script: "init echo; eof", deadline: 5 * time.Millisecond},
		"MCP":                                   {script: legacyHello + "hang", version: protocol.MCP20251125},
		"MCP, reads":                            {script: legacyHello + "eof", version: protocol.MCP20251125},
		"MCP without ping":                      {script: modernHello + "hang", version: protocol.MCP20260728},
		"MCP without ping, answers ping":        {script: modernHello + "pings ping", version: protocol.MCP20260728},
		"MCP, its callers leave early": {
			script:   legacyHello + "eof",
			version:  protocol.MCP20251125,
			deadline: 5 * time.Millisecond,
		},
		"MCP, callers leave, all capacity gone": {
			script:   legacyHello + "eof",
			version:  protocol.MCP20251125,
			deadline: 5 * time.Millisecond,
			edit:     func(s *Spec) { s.Options.MaxInFlight = 2 },
		},
		"MCP, recycle_on_hang, callers leave": {
			script:   legacyHello + "eof",
			version:  protocol.MCP20251125,
			deadline: 5 * time.Millisecond,
			edit:     func(s *Spec) { s.Options.RecycleOnHang = true },
		},
		"health_interval, its callers leave": {
			script:   "init echo; eof",
			deadline: 5 * time.Millisecond,
			edit:     func(s *Spec) { s.Options.HealthInterval = 20 * time.Millisecond },
		},
		"a grandchild holds stdout and it hangs": {script: "init echo; fork hang; hang"},
	} {
		for _, callers := range []int{1, 16} {
			t.Run(name+map[int]string{1: "", 16: ", 16 callers"}[callers], func(t *testing.T) {
				s := spec(t, c.script)
				if c.version != "" {
					s.Manifest.Transport.Protocol, s.Manifest.Transport.MCPVersion = manifest.ProtocolMCP, c.version
				}
				s.Options.CallTimeout, s.pingTimeout = 50*time.Millisecond, 20*time.Millisecond
				s.writeTimeout = patience // a full pipe is another reason to replace it
				s.Options.MaxInFlight = 0 // otherwise a native child is replaced for owing that many answers
				if c.edit != nil {
					c.edit(&s)
				}
				var kinds map[protocol.Kind]int
				var fault *protocol.Error
				blamed := false
				for began, again := time.Now(), true; again; {
					r := start(t, s)
					kinds = r.callUntilEnd(callers, c.deadline, `{"name":"echo"}`)
					fault = r.end(protocol.CallTimeout)
					blamed = strings.Contains(fault.Error(), "the host has not read")
					// a host that got no processor has truly not read what a child writes without end
					again = blamed && c.floods && time.Since(began) < patience
				}
				wantContains(t, fault.Error(), "missed 2 pings of ")
				if blamed {
					t.Errorf("it blames the host, which reads: %v", fault)
				}
				if kinds[protocol.CallTimeout] == 0 {
					t.Errorf("the callers got %v", kinds)
				}
				for kind := range kinds {
					if kind != protocol.CallTimeout && kind != "" {
						t.Errorf("the callers got %v", kinds)
					}
				}
			})
		}
	}
}

// A child that stops reading is ended once requests fill the pipe, and all calls get that error.
func TestHungWithAFullPipe(t *testing.T) {
	fault(t)
	s := spec(t, "init echo; hang")
	s.writeTimeout = 100 * time.Millisecond
	r := start(t, s)
	kinds := r.callUntilEnd(16, 0, `{"name":"echo","arguments":{"x":"`+strings.Repeat("x", 100_000)+`"}}`)
	wantContains(t, r.end(protocol.WriteStalled).Error(), "it read nothing from its stdin for 100ms")
	if kinds[protocol.WriteStalled] < 16 || len(kinds) > 1 {
		t.Errorf("the callers got %v", kinds)
	}
}

// A child that answers pings is not replaced, and the status tells for how long it has been in doubt.
func TestAnswersPingsOnly(t *testing.T) {
	fault(t)
	for name, script := range map[string]string{
		"":                   "init echo; pings ping",
		protocol.MCP20251125: legacyHello + "pings ping",
		protocol.MCP20260728: modernHello + "pings server/discover",
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(t, script)
			if name != "" {
				s.Manifest.Transport.Protocol, s.Manifest.Transport.MCPVersion = manifest.ProtocolMCP, name
			}
			s.Options.CallTimeout, s.pingTimeout, s.Options.MaxInFlight = 20*time.Millisecond, patience, 8
			if name == "" {
				s.Options.MaxInFlight = 0 // a native child answers canceled calls too
			}
			r := start(t, s)
			for range 4 * maxUnanswered {
				_, err := r.callTool()
				wantKind(t, err, protocol.CallTimeout)
			}
			eventually(t, func() bool { i := r.Info(); return i.Doubt == "" && (name == "" || i.Abandoned < 8) })
			if err := r.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// culprit names the side that stopped.
func TestCulprit(t *testing.T) {
	fault(t)
	call := func(r *trial) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, _ = r.Call(ctx, &Request{Method: protocol.MethodToolsCall, Params: json.RawMessage(`{}`)})
	}
	c := func(r *trial) *child { return r.Instance.(*StdioRuntime).child.Load() }
	begin := func(r *trial) *doubt {
		d := c(r).newDoubt(1)
		go call(r)
		_ = r.Notify(context.Background(), "notifications/x", nil)
		return d
	}
	if goruntime.GOOS != "linux" {
		t.Skip("the system does not tell")
	}
	child := func(script string) *trial {
		s := spec(t, script)
		s.Options.ShutdownGrace = time.Millisecond
		return start(t, s)
	}
	r := child("init echo; hang")
	wantContains(t, c(r).culprit(begin(r)), "it has stopped reading its stdin, where ", " bytes of requests wait")

	// Whatever is written in the meantime, the child has not read more.
	r = child("init echo; hang")
	before := c(r).taken()
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range 300 { // they fit into the pipe
				_ = r.Notify(context.Background(), "notifications/x", nil)
			}
		})
	}
	written := make(chan struct{})
	go func() { writers.Wait(); close(written) }()
	for writing := true; writing; {
		select {
		case <-written:
			writing = false
		default:
		}
		if now := c(r).taken(); now > before {
			t.Fatalf("it has read %d bytes, then %d without reading", before, now)
		}
	}
	eventually(t, func() bool { return c(r).taken() == before })

	r = child("init echo; eof")
	d := begin(r)
	eventually(t, func() bool { b, _ := c(r).backlog(); return b.Unread == 0 && c(r).taken() > d.taken })
	wantContains(t, c(r).culprit(d), "it reads its stdin, but has answered nothing for ")

	r = child("init echo; eof")
	if err := syscall.Kill(r.Info().PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, c(r).endpoint.(local).Stopped)
	wantContains(t, c(r).culprit(begin(r)), "its process is stopped, by a signal")
}

// A slot that a call holds for twice CallTimeout is freed, even if each caller waits for less.
func TestLiteHungWithImpatientCallers(t *testing.T) {
	fault(t)
	s := liteSpec(t, "read; hang")
	s.Options.CallTimeout = 200 * time.Millisecond
	r := start(t, s)
	kinds := r.callUntilEnd(1, 20*time.Millisecond, `{"name":"echo"}`)
	r.end(protocol.Overloaded)
	if kinds[protocol.CallTimeout] == 0 {
		t.Errorf("the caller got %v", kinds)
	}
}

// What an extension wrote that is no answer stands in the error of the call that it did not answer.
func TestTimeoutSaysWhatCame(t *testing.T) {
	for script, want := range map[string]string{
		`init echo; say {"jsonrpc":"2.0","id":"1","result":"ok"}; hang`: `1 of its answers had an id that was never ` +
			`sent (the id "1"): an answer repeats the id of its request`,
		`init echo; half {"id":1}; hang`: "its last line on stdout has no line break yet (8 bytes)",
	} {
		fault(t)
		s := spec(t, script)
		s.Options.CallTimeout = 20 * time.Millisecond
		r := start(t, s)
		c := r.Instance.(*StdioRuntime).child.Load()
		eventually(t, func() bool {
			_, why := c.unended()
			return why != "" || c.conn.Stats().Unknown > 0
		})
		_, err := r.callTool()
		wantContains(t, wantKind(t, err, protocol.CallTimeout).Error(), "call_timeout is 20ms", want)
		if line, why := c.unended(); why != "" {
			refused := c.handshakeError(protocol.Errorf(protocol.HandshakeTimeout, "no answer"))
			if e := refused.Evidence; refused.Kind != protocol.HandshakeInvalid || e == nil || e.Line != line ||
				line != `{"id":1}` {
				t.Errorf("%v: evidence %+v", refused, e)
			}
			wantContains(t, refused.Message, want)
		}
	}
}

// A call that has just taken the slot is not mistaken for the previous one, which may have been sent long ago.
func TestSlotForgetsTheCallBefore(t *testing.T) {
	s := slot{token: make(chan struct{}, 1)}
	s.token <- struct{}{}
	s.start()
	s.since = time.Now().Add(-time.Hour)
	s.release()
	s.token <- struct{}{} // the next call, before it starts
	if got := s.patience(time.Minute); got != time.Minute {
		t.Errorf("another call waits for %v", got)
	}
}

// Every command is killed with its call; the next call starts another command.
func TestExecHung(t *testing.T) {
	processtest.Leaks(t)
	s := execSpec(t, "hang")
	s.Options.CallTimeout = 20 * time.Millisecond
	r := start(t, s)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			_, err := r.callTool()
			wantKind(t, err, protocol.CallTimeout)
		})
	}
	wg.Wait()
	if i := r.Info(); i.InFlight != 0 {
		t.Errorf("%d in flight", i.InFlight)
	}
}

// TestRemoteHung has servers that accept requests and stop answering at some point.
func TestRemoteHung(t *testing.T) {
	for name, c := range map[string]struct{ handler, kind, version string }{
		"sessions":  {"sessions", manifest.KindHTTP, protocol.MCP20251125},
		"stateless": {"stateless", manifest.KindHTTP, protocol.MCP20260728},
		"sse":       {"sse", manifest.KindSSE, manifest.MCPVersionAuto},
	} {
		for _, callers := range []int{1, 16} {
			t.Run(name+map[int]string{1: "", 16: ", 16 callers"}[callers], func(t *testing.T) {
				processtest.Leaks(t)
				f := &refusing{inner: sdkHandler(t, c.handler)}
				s := remoteSpec(c.kind, serve(t, f), c.version)
				s.Options.CallTimeout, s.pingTimeout = 50*time.Millisecond, 20*time.Millisecond
				r := start(t, s)
				hang := http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { read(q); <-q.Context().Done() })
				f.fault.Store(&hang)
				kinds := r.callUntilEnd(callers, 0, `{"name":"echo","arguments":{}}`)
				wantContains(t, r.end(protocol.CallTimeout).Error(), "missed 2 pings of ", "was disconnected")
				if kinds[protocol.CallTimeout] == 0 {
					t.Errorf("the callers got %v", kinds)
				}
			})
		}
	}
}
