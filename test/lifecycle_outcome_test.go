package test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// expiring is a context whose deadline the test triggers.
type expiring struct {
	context.Context
	done chan struct{}
}

func (c expiring) Done() <-chan struct{} { return c.done }

func (c expiring) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// journalHost opens a host with the journal extension, whose calls die that often. ran returns how many calls it has
// carried out.
func journalHost(t *testing.T, o exthost.Options) (h *exthost.Host, ran func() int) {
	t.Helper()
	o.StateDir = t.TempDir()
	h = hosttest.NewFolder(t).Add("x", journalCapabilities+hosttest.Plays("journal", "")).Open(o)
	return h, func() int { return len(hosttest.LinesOf(t, o.StateDir, "x", "journal")) }
}

// responding is a policy of the response flow.
type responding func(ctx context.Context) (governance.Decision, error)

func (r responding) Decide(ctx context.Context, flow governance.Flow, _ *governance.Exchange,
) (governance.Decision, error) {
	if flow == governance.Request {
		return governance.Decision{}, nil
	}
	return r(ctx)
}

// Whatever ends a call that the tool has carried out, its error says that it may have been carried out: clients repeat
// calls whose error has no outcome.
func TestErrorAfterToolHasRunHasOutcome(t *testing.T) {
	processtest.Leaks(t)
	deny := governance.Decision{Action: governance.Deny, Reason: "no"}
	long := json.RawMessage(`{"content":[],"x":"` + strings.Repeat("x", governance.DefaultMaxJSON) + `"}`)
	var end func() // makes the caller give up
	waits := func(ctx context.Context) error {
		end()
		<-ctx.Done()
		return ctx.Err()
	}
	policy := func(r responding) exthost.Options {
		return exthost.Options{Policies: []governance.Member{member("p", governance.Content, r)}}
	}
	hook := func(h hooks.Handler) exthost.Options {
		h.Name, h.Point = "h", hooks.AfterToolCall
		return exthost.Options{Hooks: []hooks.Handler{h}}
	}
	for _, tt := range []struct {
		name string
		o    exthost.Options
		kind protocol.Kind // of an error; also canceled for the caller that cancels
	}{
		{"the caller gives up while a policy decides", policy(func(ctx context.Context) (governance.Decision, error) {
			return governance.Decision{}, waits(ctx)
		}), protocol.CallTimeout},
		{"a policy withholds the result", policy(func(context.Context) (governance.Decision, error) {
			return deny, nil
		}), protocol.Rejected},
		{"a policy fails", policy(func(context.Context) (governance.Decision, error) {
			return governance.Decision{}, errors.New("its database is down")
		}), protocol.GovernanceUnavailable},
		{"a policy panics", policy(func(context.Context) (governance.Decision, error) {
			panic("a mistake")
		}), protocol.GovernanceUnavailable},
		{"a policy asks a person, and there is none", policy(func(context.Context) (governance.Decision, error) {
			return governance.Decision{Action: governance.Ask, Expiry: 1}, nil
		}), protocol.Rejected},
		{"a policy makes the result too long", policy(func(context.Context) (governance.Decision, error) {
			return governance.Decision{Action: governance.Modify, JSON: long}, nil
		}), protocol.GovernanceUnavailable},
		{"the caller gives up while a hook runs",
			hook(hooks.Handler{Run: func(ctx context.Context, _ *hooks.Event) (*hooks.Reply, error) {
				return nil, waits(ctx)
			}}), protocol.CallTimeout},
		{"a hook withholds the result",
			hook(hooks.Handler{Run: func(context.Context, *hooks.Event) (*hooks.Reply, error) {
				return &hooks.Reply{Decision: hooks.Deny, Reason: "no"}, nil
			}}), protocol.Rejected},
		{"a hook panics", hook(hooks.Handler{
			OnError: hooks.DenyOnError,
			Run: func(context.Context, *hooks.Event) (*hooks.Reply, error) {
				panic("a mistake")
			},
		}), protocol.Rejected},
		{"the host panics", exthost.Options{
			Policies: []governance.Member{
				member("p", governance.Content,
					decider(func(governance.Flow, *governance.Exchange) governance.Decision {
						return governance.Decision{}
					})),
			},
			Observe: func(o governance.Observation) {
				if o.Flow == governance.Response {
					panic("a mistake")
				}
			},
		}, protocol.ExtensionError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, ran := journalHost(t, tt.o)
			fails := func(ctx context.Context, cancel func(), kind protocol.Kind) {
				t.Helper()
				end = cancel
				_, err := h.Call(ctx, "ext_x_acts", journaled{Nonce: "n"})
				if e, _ := errors.AsType[*protocol.Error](err); e == nil || e.Kind != kind || e.Outcome != "unknown" ||
					e.Tool != "ext_x_acts" {
					t.Errorf("%#v, want %s with an unknown outcome", err, kind)
				}
			}
			late := expiring{t.Context(), make(chan struct{})}
			fails(late, func() { close(late.done) }, tt.kind)
			if tt.kind == protocol.CallTimeout {
				ctx, cancel := context.WithCancel(t.Context())
				fails(ctx, cancel, protocol.Canceled)
			} else if n := ran(); n != 1 {
				t.Errorf("carried out %d times", n)
			}
		})
	}
}

// A call that reached no instance has no outcome and may be repeated.
func TestErrorBeforeToolRunsHasNoOutcome(t *testing.T) {
	processtest.Leaks(t)
	var end func()
	request := func(do func(ctx context.Context) (governance.Decision, error)) exthost.Options {
		return exthost.Options{Policies: []governance.Member{member("p", governance.Content, requesting(do))}}
	}
	for _, tt := range []struct {
		name string
		o    exthost.Options
		args string
		kind protocol.Kind
	}{
		{"a policy denies it", request(func(context.Context) (governance.Decision, error) {
			return governance.Decision{Action: governance.Deny}, nil
		}), `{"nonce":"n","die":0}`, protocol.Rejected},
		{"a policy fails", request(func(context.Context) (governance.Decision, error) {
			return governance.Decision{}, errors.New("its database is down")
		}), `{"nonce":"n","die":0}`, protocol.GovernanceUnavailable},
		{"the caller gives up while a policy decides", request(func(ctx context.Context) (governance.Decision, error) {
			end()
			<-ctx.Done()
			return governance.Decision{}, ctx.Err()
		}), `{"nonce":"n","die":0}`, protocol.CallTimeout},
		{"a hook denies it", exthost.Options{Hooks: []hooks.Handler{{Name: "h", Point: hooks.BeforeToolCall,
			Run: func(context.Context, *hooks.Event) (*hooks.Reply, error) {
				return &hooks.Reply{Decision: hooks.Deny, Reason: "no"}, nil
			}}}}, `{"nonce":"n","die":0}`, protocol.Rejected},
		{"the arguments do not fit", exthost.Options{}, `{"nonce":1,"die":0}`, protocol.InvalidArguments},
		{"the host panics", exthost.Options{
			Policies: []governance.Member{
				member("p", governance.Content,
					decider(func(governance.Flow, *governance.Exchange) governance.Decision {
						return governance.Decision{}
					})),
			},
			Observe: func(governance.Observation) { panic("a mistake") },
		}, `{"nonce":"n","die":0}`, protocol.ExtensionError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, ran := journalHost(t, tt.o)
			late := expiring{t.Context(), make(chan struct{})}
			end = func() { close(late.done) }
			_, err := h.Call(late, "ext_x_acts", json.RawMessage(tt.args))
			if e, _ := errors.AsType[*protocol.Error](err); e == nil || e.Kind != tt.kind || e.Outcome != "" ||
				ran() != 0 {
				t.Errorf("%#v, want %s without an outcome; carried out %d times", err, tt.kind, ran())
			}
		})
	}
}

// requesting is a policy of the request flow.
type requesting func(ctx context.Context) (governance.Decision, error)

func (r requesting) Decide(ctx context.Context, flow governance.Flow, _ *governance.Exchange,
) (governance.Decision, error) {
	if flow == governance.Response {
		return governance.Decision{}, nil
	}
	return r(ctx)
}

// unhelpful is a client whose user answers no question.
type unhelpful struct{ *hosttest.Recorder }

func (unhelpful) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return nil, &protocol.Error{Kind: protocol.ExtensionError, Code: -1, Message: "the user is away"}
}

// A server that asks for input has begun the call. The client's own error is not an answer of the extension.
func TestErrorOfInputRoundHasOutcome(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("newer", rich("newer", "")).Open(exthost.Options{})
	s, _ := stay(t, h, "s", protocol.MCP20251125, "")
	_, err := h.Do(hosttest.Deadline(t),
		&protocol.Call{
			Session: s,
			Client:  unhelpful{hosttest.NewRecorder()},
			Method:  protocol.MethodToolsCall,
			Params:  json.RawMessage(`{"name":"ext_newer_input","arguments":{}}`),
		})
	e, _ := errors.AsType[*protocol.Error](err)
	if e == nil || e.Outcome != "unknown" {
		t.Fatalf("%#v", err)
	}
	if w := e.Wire(); w.Code != -1 || !strings.Contains(string(w.Data), `"outcome":"unknown"`) {
		t.Errorf("%d %s", w.Code, w.Data)
	}
}

// Every front carries the outcome: of an error as its data, of a denial as the _meta of a result whose text tells it
// too.
func TestFrontsCarryOutcome(t *testing.T) {
	processtest.Leaks(t)
	decision, failure := governance.Decision{}, errors.New("its database is down")
	h, _ := journalHost(t, exthost.Options{Policies: []governance.Member{member("p", governance.Content,
		responding(func(context.Context) (governance.Decision, error) {
			return decision, failure
		}))}})
	for name, w := range map[string]*way{
		"stdio":      overStdio(t, h, false),
		"stdio 2026": overStdio(t, h, true),
		"http":       overStreamable(t, h, "/mcp", false),
		"http 2026":  overStreamable(t, h, "/mcp", true),
		"sse":        overSSE(t, h, "/sse"),
	} {
		decision, failure = governance.Decision{}, errors.New("its database is down")
		if got := w.request(t, 1, "tools/call",
			`"name":"ext_x_acts","arguments":{"nonce":"n","die":0}`); !strings.Contains(got,
			`"error":{"code":-32032`) || !strings.Contains(got, `"outcome":"unknown"`) {
			t.Errorf("%s: a policy that failed: %s", name, got)
		}
		decision, failure = governance.Decision{Action: governance.Deny, Reason: "not for you"}, nil
		got := w.request(t, 2, "tools/call", `"name":"ext_x_acts","arguments":{"nonce":"n","die":0}`)
		for _, want := range []string{
			`"isError":true`,
			"not for you; it may have been carried out nevertheless",
			`"outcome":"unknown"`,
			`"executed":true`,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: a denial without %s: %s", name, want, got)
			}
		}
	}
}

var errLost = &protocol.Error{Kind: protocol.NodeLost, Message: "gone", Outcome: "unknown"}

// A panic of the host after the extension's own error is not an answer of the extension.
func TestPanicAfterErrorOfExtensionHasOutcome(t *testing.T) {
	processtest.Leaks(t)
	allow := decider(func(governance.Flow, *governance.Exchange) governance.Decision { return governance.Decision{} })
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{
		Policies: []governance.Member{member("p", governance.Content, allow)},
		Observe: func(o governance.Observation) {
			if o.Flow == governance.Response {
				panic("a mistake")
			}
		}})
	_, err := h.Call(hosttest.Deadline(t), "ext_x_refuse", nil)
	if e, _ := errors.AsType[*protocol.Error](err); e == nil || e.Outcome != "unknown" || e.Code != 0 {
		t.Errorf("%#v", err)
	}
}

// If the process dies, its node repeats the call, and the calling node does not repeat it again.
func TestReplayIsOfTheNodeWithTheProcess(t *testing.T) {
	processtest.Leaks(t)
	w, state := newWeb(), t.TempDir()
	f := hosttest.NewFolder(t).Add("x", journalCapabilities+hosttest.Plays("journal", ""))
	cfg := f.Config()
	cfg.Extensions.Defaults.Replay = manifest.ReplayIdempotent
	f.OpenWith(cfg, exthost.Options{Cluster: w.node("a", peers.AsReplicas), StateDir: state})
	front := hosttest.NewFolder(t).Open(exthost.Options{Cluster: w.node("front", peers.AsReplicas)})
	awaitTool(t, front, "ext_x_reads", true)
	_, err := front.Call(hosttest.Deadline(t), "ext_x_reads", journaled{"n", 9})
	if e, _ := errors.AsType[*protocol.Error](err); e == nil || e.Kind != protocol.ChildExited ||
		e.Outcome != "unknown" {
		t.Errorf("%v", err)
	}
	if n := len(hosttest.LinesOf(t, state, "x", "journal")); n != 2 {
		t.Errorf("carried out %d times", n)
	}
}

// replicasThatFail are two nodes with a read-only tool: one is full, and the other one is lost during each call.
func replicasThatFail(t *testing.T) (front *exthost.Host, full, lost *webNode) {
	t.Helper()
	w := newWeb()
	full, lost = w.node("a", peers.AsReplicas), w.node("b", peers.AsReplicas)
	for _, n := range []*webNode{full, lost} {
		f := hosttest.NewFolder(t).Add("x", journalCapabilities+hosttest.Plays("journal", ""))
		cfg := f.Config()
		cfg.Extensions.Defaults.Replay = manifest.ReplayIdempotent
		f.OpenWith(cfg, exthost.Options{Cluster: n})
	}
	front = hosttest.NewFolder(t).Open(exthost.Options{Cluster: w.node("front", peers.AsReplicas)})
	awaitTool(t, front, "ext_x_reads", true)
	hosttest.Eventually(t, "both nodes", func() bool { return len(hosttest.StatusOf(t, front, "x").Nodes) == 2 })
	full.set(&protocol.Error{Kind: protocol.Overloaded, Message: "full"})
	lost.set(errLost)
	return front, full, lost
}

// A replay asks all nodes again. Until the breaker opens for the lost node, that node gets each call twice, and the
// full one refuses it as often.
func TestReplayAfterRefusal(t *testing.T) {
	processtest.Leaks(t)
	front, full, lost := replicasThatFail(t)
	for n := range 6 {
		_, err := front.Call(hosttest.Deadline(t), "ext_x_reads", map[string]any{"nonce": "n", "die": 0})
		had := lost.set(errLost)
		e, _ := errors.AsType[*protocol.Error](err)
		switch {
		case e == nil || (e.Outcome != "") != (had > 0):
			t.Errorf("call %d, which the lost node had %d times: %#v", n+1, had, err)
		case had > 0 && e.Kind != protocol.NodeLost:
			t.Errorf("call %d: %v", n+1, err)
		}
	}
	full.set(nil)
	if got, err := front.Call(hosttest.Deadline(t), "ext_x_reads",
		map[string]any{"nonce": "n", "die": 0}); err != nil || got.Text() != "done n" {
		t.Errorf("a node that is back: %s, %v", got, err)
	}
}

// A failed replay leaves the host of a client on stdio alive.
func TestReplayAfterRefusalOverStdio(t *testing.T) {
	processtest.Leaks(t)
	front, _, _ := replicasThatFail(t)
	w := overStdio(t, front, false)
	for n := range 4 {
		if got := w.request(t, n+1, "tools/call",
			`"name":"ext_x_reads","arguments":{"nonce":"n","die":0}`); !strings.Contains(got, `"error"`) {
			t.Errorf("call %d: %s", n+1, got)
		}
	}
}
