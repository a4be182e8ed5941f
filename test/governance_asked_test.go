package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// askingHost is a host over HTTP whose policy asks for approvals of ext_x_greet.
type askingHost struct {
	*exthost.Host
	t     *testing.T
	url   string
	token map[string]string // by client
	log   string
}

// newAskingHost opens a host with the policy approval of this config. The clients may approve what they are given.
func newAskingHost(t *testing.T, policy map[string]any, approves map[string][]protocol.Risk, servers ...string,
) *askingHost {
	t.Helper()
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	for _, id := range servers {
		f.Add(id, rich("older", ""))
	}
	cfg := f.Config()
	a := &askingHost{t: t, token: make(map[string]string), log: filepath.Join(t.TempDir(), "audit")}
	cfg.Audit.Path = a.log
	cfg.Plugins = []governance.Spec{{
		Name:     "ask",
		Builtin:  "approval",
		Category: governance.Authorization,
		Match:    governance.Match{Tools: []string{"ext_x_greet"}},
		Config:   policy,
	}}
	cfg.Server.Clients = make(map[string]config.Client)
	for name, risks := range approves {
		a.token[name] = clienttoken.New()
		cfg.Server.Clients[name] = config.Client{TokenHash: clienttoken.Hash(a.token[name]), Approves: risks}
	}
	a.Host = f.OpenWith(cfg, exthost.Options{})
	a.url = hosttest.ServeOptions(t, httpserver.Options{
		Backend:       a.Host,
		Serves:        a.Serves,
		Toolsets:      a.Toolsets(),
		Clients:       a.Clients(),
		Admin:         httpserver.Admin(a.Host, nil),
		OperatorToken: "the-operators-own-token",
	}) + "/mcp"
	return a
}

// connect returns an official client of the given era, whose person answers as answer does.
func (a *askingHost) connect(name, version string,
	answer func(ctx context.Context, message string) (action string, err error)) *mcp.ClientSession {
	a.t.Helper()
	o := &mcp.ClientOptions{}
	if answer != nil {
		o.ElicitationHandler = func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			action, err := answer(ctx, r.Params.Message)
			return &mcp.ElicitResult{Action: action}, err
		}
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "term", Version: "1"}, o).Connect(hosttest.Deadline(a.t),
		&mcp.StreamableClientTransport{
			Endpoint:             a.url,
			HTTPClient:           &http.Client{Transport: bearing(a.token[name])},
			DisableStandaloneSSE: true,
		}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = s.Close() })
	return s
}

// greet calls the tool, and returns what its caller is told.
func (a *askingHost) greet(ctx context.Context, s *mcp.ClientSession, who string) string {
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "ext_x_greet", Arguments: map[string]any{"name": who}})
	if err != nil {
		return "error: " + err.Error()
	}
	text, _ := r.Content[0].(*mcp.TextContent)
	return text.Text
}

// ran returns how many calls the extension was given.
func (a *askingHost) ran() int64 { return hosttest.StatusOf(a.t, a.Host, "x").Calls }

// waiting waits until n approval requests wait, and returns them.
func (a *askingHost) waiting(n int) (list []approval.Request) {
	a.t.Helper()
	hosttest.Eventually(a.t, fmt.Sprint(n, " approval requests"), func() bool {
		list = a.Admin().ApprovalRequests()
		return len(list) == n
	})
	return list
}

// records closes the host and returns its audit log of calls and of answers of clients: who answered where.
func (a *askingHost) records() (lines []string) {
	a.t.Helper()
	if err := a.Close(); err != nil {
		a.t.Error(err)
	}
	for r, err := range audit.Read(hosttest.Deadline(a.t), a.log, audit.Query{}) {
		if err != nil {
			a.t.Fatal(err)
		}
		if r.Tool == "ext_x_greet" && r.Direction != "to_caller" {
			took := ""
			if r.AnsweredAfter > 0 {
				took = "timed"
			}
			lines = append(lines, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s %s %s", r.Method, r.Outcome,
				r.Code, r.ApprovedBy, r.AnsweredIn, took)), " "))
		}
	}
	return lines
}

// eras are the versions of MCP that ask in two ways: by a request of the server, and in a result.
var eras = []string{protocol.MCP20251125, protocol.MCP20260728}

// writes is the right to approve the tools that the tests call.
var writes = map[string][]protocol.Risk{"laptop": {protocol.RiskWrite}}

// Each way in which a question in a client can end has one outcome, and the audit log says who answered where.
func TestApprovalInTheClient(t *testing.T) {
	processtest.Leaks(t)
	for _, version := range eras {
		for _, tt := range []struct {
			name, where string
			answer      string // of the client; "" is none
			operator    func(h *exthost.Host, id string) error
			expiry      string
			told        string // to the caller
			ran         int64
			record      string
		}{
			{"accept", "client", "accept", nil, "", "Hello, Ada!", 1, "tools/call ok laptop client timed"},
			{"decline", "client", "decline", nil, "", "it was not approved by laptop", 0,
				"tools/call denied approval_denied laptop client timed"},
			{"cancel", "client", "cancel", nil, "", "the question was dismissed", 0,
				"tools/call denied approval_denied laptop: the question was dismissed client timed"},
			{"cancel, then operators", "client_then_operator", "cancel", approve, "", "Hello, Ada!", 1,
				"tools/call ok ann operator timed"},
			{"error, then operators", "client", "error", deny, "", "it was not approved by ann: no", 0,
				"tools/call denied approval_denied ann: no operator timed"},
			{"time out", "client", "", nil, "300ms", "nobody approved it within 300ms; make the call again, and have " +
				"it answered: exthost calls approve", 0, "tools/call denied approval_expired"},
			{"operators first", "client", "", approve, "", "Hello, Ada!", 1, "tools/call ok ann operator timed"},
			{"no client", "operator", "accept", approve, "", "Hello, Ada!", 1, "tools/call ok ann operator timed"},
		} {
			if tt.answer == "error" && version == protocol.MCP20260728 {
				continue // an official client fails the call itself, and does not come back
			}
			t.Run(version+" "+tt.name, func(t *testing.T) {
				config := map[string]any{"where": tt.where, "reason": "sure?"}
				if tt.expiry != "" {
					config["expiry"] = tt.expiry
				}
				h := newAskingHost(t, config, writes)
				answered := make(chan struct{})
				asked := make(chan string, 16)
				s := h.connect("laptop", version, func(ctx context.Context, message string) (string, error) {
					asked <- message
					switch tt.answer {
					case "error":
						return "", errors.New("there is no terminal")
					case "":
						select { // a modern client is not told that the question was taken back
						case <-ctx.Done():
						case <-answered:
						}
						return "accept", nil
					}
					return tt.answer, nil
				})
				told := make(chan string, 1)
				go func() { told <- h.greet(hosttest.Deadline(t), s, "Ada") }()
				if tt.where != "operator" {
					message := receive(t, asked)
					if !strings.Contains(message, "tool: ext_x_greet of extension x (write)") ||
						!strings.Contains(message, `arguments: {"name":"Ada"}`) || !strings.Contains(message, "sure?") {
						t.Errorf("the client is asked %q", message)
					}
				}
				if tt.operator != nil {
					q := h.waiting(1)[0]
					if err := tt.operator(h.Host, q.ID); err != nil {
						t.Error(err)
					}
				}
				if version == protocol.MCP20260728 || tt.answer == "" && tt.expiry != "" {
					h.waiting(0)
				}
				close(answered)
				if got := receive(t, told); !strings.Contains(got, tt.told) {
					t.Errorf("the caller is told %q, want %q", got, tt.told)
				}
				h.waiting(0)
				if ran := h.ran(); ran != tt.ran {
					t.Errorf("the tool ran %d times", ran)
				}
				if diff := cmp.Diff([]string{tt.record}, h.records()); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func approve(h *exthost.Host, id string) error { return h.Admin().Approve(id, "ann") }
func deny(h *exthost.Host, id string) error    { return h.Admin().Deny(id, "ann", "no") }

// receive receives from c in the time that a test may take.
func receive[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-hosttest.Deadline(t).Done():
		t.Fatal("nothing came")
	}
	return v
}

// A client that disconnects while it is asked has answered nothing: the call ends, and waits for an operator and for
// its next attempt.
func TestDisconnectAnswersNothing(t *testing.T) {
	processtest.Leaks(t)
	for _, version := range eras {
		h := newAskingHost(t, map[string]any{"where": "client"}, writes)
		asked, gone := make(chan struct{}, 1), make(chan struct{})
		over := sync.OnceFunc(func() { close(gone) })
		s := h.connect("laptop", version, func(context.Context, string) (string, error) {
			asked <- struct{}{}
			<-gone // official clients wait for the person, whatever comes from the server
			return "accept", nil
		})
		ctx, disconnect := context.WithCancel(hosttest.Deadline(t))
		told := make(chan string, 1)
		go func() { told <- h.greet(ctx, s, "Ada") }()
		receive(t, asked)
		disconnect()
		if version == protocol.MCP20260728 { // an official client returns from the call with its person's answer
			over()
		}
		if got := receive(t, told); !strings.Contains(got, "error: ") {
			t.Errorf("%s: %s", version, got)
		}
		if version == protocol.MCP20251125 { // a modern call has no connection between its requests
			hosttest.Eventually(t, "the request has no caller", func() bool {
				q := h.Admin().ApprovalRequests()
				return len(q) == 1 && !q[0].Waiting && q[0].AskedIn == ""
			})
		}
		if ran := h.ran(); ran != 0 {
			t.Errorf("%s: the tool ran %d times", version, ran)
		}
		over()
	}
}

// Clients that may not approve, or cannot be asked, wait for operators, and are told how these answer.
func TestClientsThatAreNotAsked(t *testing.T) {
	processtest.Leaks(t)
	h := newAskingHost(t, map[string]any{"where": "client"}, map[string][]protocol.Risk{
		"laptop": {protocol.RiskWrite}, "reader": {protocol.RiskRead, protocol.RiskDestroy}, "nobody": nil,
	})
	for _, version := range eras {
		for name, answer := range map[string]func(context.Context, string) (string, error){
			"reader": accepts(t), "nobody": accepts(t), "laptop": nil,
		} {
			s := h.connect(name, version, answer)
			told := make(chan string, 1)
			go func() { told <- h.greet(hosttest.Deadline(t), s, name) }()
			var q approval.Request
			hosttest.Eventually(t, "an approval request that is asked in no client", func() bool {
				q = h.waiting(1)[0]
				return q.AskedIn == "" // a question to a client without the means for it fails at once
			})
			if q.Caller != name {
				t.Errorf("%s %s: %+v", version, name, q)
			}
			if err := deny(h.Host, q.ID); err != nil {
				t.Error(err)
			}
			if got := receive(t, told); !strings.Contains(got, "not approved by ann") {
				t.Errorf("%s %s: %s", version, name, got)
			}
		}
	}
	if ran := h.ran(); ran != 0 {
		t.Errorf("the tool ran %d times", ran)
	}
}

// accepts fails the test if it is asked anything.
func accepts(t *testing.T) func(context.Context, string) (string, error) {
	return func(_ context.Context, message string) (string, error) {
		t.Errorf("asked %q", message)
		return "accept", nil
	}
}

// A yes that holds for the session is asked once in it, and again in the next.
func TestYesHoldsForTheSession(t *testing.T) {
	processtest.Leaks(t)
	h := newAskingHost(t, map[string]any{"where": "client", "remember": "session"}, writes)
	var mu sync.Mutex
	asked := 0
	yes := func(context.Context, string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		return "accept", nil
	}
	for i, calls := range [][]string{{"Ada", "Ada", "Bob", "Ada"}, {"Ada"}} {
		s := h.connect("laptop", protocol.MCP20251125, yes)
		for _, who := range calls {
			if got := h.greet(hosttest.Deadline(t), s, who); got != "Hello, "+who+"!" {
				t.Error(got)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if want := i + 2; asked != want {
			t.Errorf("asked %d times, want %d", asked, want)
		}
	}
}

// A hook that asks in the client is answered there, and the audit log says so.
func TestHookAsksInTheClient(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	cfg := f.Config()
	cfg.Audit.Path = filepath.Join(t.TempDir(), "audit")
	cfg.Server.Clients = map[string]config.Client{"laptop": {Approves: writes["laptop"]}}
	h := &askingHost{t: t, log: cfg.Audit.Path}
	h.Host = f.OpenWith(cfg, exthost.Options{Hooks: []hooks.Handler{{
		Name:  "careful",
		Point: hooks.BeforeToolCall,
		Run: func(context.Context, *hooks.Event) (*hooks.Reply, error) {
			return &hooks.Reply{Decision: hooks.Ask, Asking: protocol.Asking{Where: protocol.InClient}}, nil
		},
	}}})
	var asked atomic.Int64
	for _, caller := range []string{"laptop", "tablet"} {
		done := make(chan error, 1)
		go func() {
			_, err := h.Do(hosttest.Deadline(t), &protocol.Call{
				Session: &protocol.Session{Caller: caller, ID: caller},
				Method:  protocol.MethodToolsCall,
				Client:  accepting{&asked},
				Params:  json.RawMessage(`{"name":"ext_x_greet","arguments":{"name":"Ada"}}`),
			})
			done <- err
		}()
		if caller == "tablet" {
			q := h.waiting(1)[0]
			if q.By() != "hook careful" {
				t.Errorf("%s asks", q.By())
			}
			if err := deny(h.Host, q.ID); err != nil {
				t.Error(err)
			}
		}
		if err := receive(t, done); (err == nil) != (caller == "laptop") {
			t.Error(err)
		}
	}
	records := h.records()
	slices.Sort(records)
	if diff := cmp.Diff([]string{
		"tools/call denied approval_denied ann: no operator timed", "tools/call ok laptop client timed",
	}, records); diff != "" || asked.Load() != 1 {
		t.Errorf("asked %d times %s", asked.Load(), diff)
	}
}

// A client that answers as no person can is asked ten times and then no more; status, log and audit log name it.
func TestClientThatAcceptsEverything(t *testing.T) {
	processtest.Leaks(t)
	h := newAskingHost(t, map[string]any{"where": "client"}, writes)
	s := h.connect("laptop", protocol.MCP20251125,
		func(context.Context, string) (string, error) { return "accept", nil })
	named := func() bool {
		return slices.ContainsFunc(h.Status().Diagnostics, func(d protocol.Diagnostic) bool {
			return d.Code == "client_answers_itself" && strings.Contains(d.Message, "client laptop")
		})
	}
	fast := 0
	for ; !named() && fast < 1000; fast++ { // on a machine under load some of its answers are slow
		if got := h.greet(hosttest.Deadline(t), s, "Ada"); got != "Hello, Ada!" {
			t.Fatal(got)
		}
	}
	if fast < 10 || !named() {
		t.Fatalf("asked %d times", fast)
	}
	told := make(chan string, 1)
	go func() { told <- h.greet(hosttest.Deadline(t), s, "Ada") }()
	if err := deny(h.Host, h.waiting(1)[0].ID); err != nil {
		t.Error(err)
	}
	if got := receive(t, told); !strings.Contains(got, "not approved by ann") {
		t.Error(got)
	}
	if !slices.Contains(h.records(), "exthost/approvals/answer denied") {
		t.Error("the audit log does not name the client")
	}
}

// Progress names the command and the dashboard while a call waits for operators.
func TestProgressSaysWhoIsAwaited(t *testing.T) {
	processtest.Leaks(t)
	h := newAskingHost(t, map[string]any{"where": "client"}, map[string][]protocol.Risk{"laptop": nil})
	h.Admin().ServedBy(func() status.Server { return status.Server{Dashboard: "http://127.0.0.1:7800/ui/"} })
	progress := make(chan protocol.Progress, 16)
	done := make(chan error, 1)
	go func() {
		_, err := h.CallWith(hosttest.Deadline(t), "ext_x_greet", map[string]string{"name": "Ada"}, exthost.CallOptions{
			Session:  &protocol.Session{Caller: "laptop"},
			Progress: func(p protocol.Progress) { progress <- p },
		})
		done <- err
	}()
	q := h.waiting(1)[0]
	want := "waits for an approval: exthost calls approve " + q.ID + ", or http://127.0.0.1:7800/ui/, "
	if p := receive(t, progress); !strings.HasPrefix(p.Message, want) {
		t.Errorf("%q, want %q", p.Message, want)
	}
	if err := approve(h.Host, q.ID); err != nil {
		t.Error(err)
	}
	if err := receive(t, done); err != nil {
		t.Error(err)
	}
}
