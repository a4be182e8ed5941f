package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/protocol"
)

// says returns a handler with a fixed reply.
func says(name string, p Point, reply *Reply, err error) Handler {
	return Handler{Name: name, Point: p, Run: func(context.Context, *Event) (*Reply, error) { return reply, err }}
}

func ran(o Outcome) (names []string) {
	for _, s := range o.Steps {
		names = append(names, s.Handler)
	}
	return names
}

func TestOrder(t *testing.T) {
	at := func(name string, priority int) Handler {
		h := says(name, BeforeToolCall, nil, nil)
		h.Priority = priority
		return h
	}
	s := NewSet(Options{}, at("c", 1), at("a", -1), at("d", 1), at("b", -1), says("x", AfterToolCall, nil, nil))
	out, err := s.Run(t.Context(), &Event{Point: BeforeToolCall})
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, ran(out)); diff != "" || err != nil {
		t.Error(diff, err)
	}
	var listed []string
	for h := range s.Handlers() {
		listed = append(listed, h.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "x"}, listed); diff != "" {
		t.Error(diff)
	}
}

// An empty set, and a point without handlers, do not allocate.
func TestEmptySetAllocatesNothing(t *testing.T) {
	var none *Set
	for _, s := range []*Set{none, {}, NewSet(Options{}), NewSet(Options{}, says("x", AfterMessage, nil, nil))} {
		e := Event{Point: BeforeToolCall, Payload: json.RawMessage(`{"a":1}`)}
		out, err := s.Run(t.Context(), &e)
		if err != nil || string(out.Payload) != `{"a":1}` || out.Changed || s.Has(BeforeToolCall) {
			t.Errorf("%+v, %v", out, err)
		}
		if n := testing.AllocsPerRun(100, func() { _ = s.Has(BeforeToolCall); _, _ = s.Run(t.Context(), &e) }); n > 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// Every pair of decisions in both orders: the stronger counts, with its own reason.
func TestDecisionAlgebra(t *testing.T) {
	all := []Decision{None, Allow, Ask, Deny}
	for i, first := range all {
		for j, second := range all {
			s := NewSet(Options{}, says("1", AfterMessage, &Reply{Decision: first, Reason: "r1"}, nil),
				says("2", AfterMessage, &Reply{Decision: second, Reason: "r2"}, nil))
			out, err := s.Run(t.Context(), &Event{Point: AfterMessage})
			want := all[max(i, j)]
			by, reason := "1", "r1"
			if j > i {
				by, reason = "2", "r2"
			}
			if want == None {
				by, reason = "", ""
			}
			if err != nil || out.Decision != want || out.By != by || out.Reason != reason {
				t.Errorf("%q, then %q: %+v, %v", first, second, out, err)
			}
			if n := len(out.Steps); n != 2 && first != Deny || n != 1 && first == Deny {
				t.Errorf("%q, then %q: %d handlers ran", first, second, n)
			}
		}
	}
}

// The effect of each decision at each point: an error, or an outcome only.
func TestDenialsByPoint(t *testing.T) {
	for _, p := range Points() {
		gate := slices.Contains([]Point{BeforeMessage, BeforeModelRequest, BeforeToolCall, ToolsSelect, ExtensionLoad},
			p)
		if p.Gate() != gate {
			t.Errorf("%s: a gate: %t", p, p.Gate())
		}
		for _, tt := range []struct {
			reply  Reply
			denied bool
		}{
			{Reply{}, false},
			{Reply{Decision: Allow}, false},
			{Reply{Decision: Deny, Reason: "no"}, gate || p == AfterToolCall},
			{Reply{Decision: Ask, Reason: "no"}, gate || p == AfterToolCall},
			{Reply{Abort: true, Reason: "no"}, gate},
		} {
			s := NewSet(Options{}, says("h", p, &tt.reply, nil), says("later", p, nil, nil))
			out, err := s.Run(t.Context(), &Event{Point: p, Extension: "x", Tool: "ext_x_t"})
			e, _ := errors.AsType[*protocol.Error](err)
			if (e != nil) != tt.denied ||
				e != nil && (e.Kind != protocol.Rejected || e.Tool != "ext_x_t" ||
					!strings.HasPrefix(e.Message, "hook h: ") || !strings.HasSuffix(e.Message, "no")) {
				t.Errorf("%s %+v: %v", p, tt.reply, err)
			}
			if e != nil && strings.Contains(string(e.Data), `"executed":true`) != (p == AfterToolCall) {
				t.Errorf("%s: data %s", p, e.Data)
			}
			if ended := tt.reply.Abort || tt.reply.Decision == Deny; ended == (len(out.Steps) == 2) ||
				out.Aborted != tt.reply.Abort {
				t.Errorf("%s %+v: %d handlers ran, aborted %t", p, tt.reply, len(out.Steps), out.Aborted)
			}
		}
	}
}

// Every combination of a failing handler's owner, point and on_error.
func TestOnError(t *testing.T) {
	failing := map[string]func(context.Context, *Event) (*Reply, error){
		"error":        func(context.Context, *Event) (*Reply, error) { return nil, errors.New("disk full") },
		"panic":        func(context.Context, *Event) (*Reply, error) { panic("disk full") },
		"bad decision": func(context.Context, *Event) (*Reply, error) { return &Reply{Decision: "disk full"}, nil },
		"bad override": func(context.Context, *Event) (*Reply, error) {
			return &Reply{Override: json.RawMessage(`"disk full"`)}, nil
		},
		"not JSON": func(context.Context, *Event) (*Reply, error) {
			return &Reply{Override: json.RawMessage(`{"a":1},"method":"x"`)}, nil
		},
	}
	for how, run := range failing {
		for _, p := range Points() {
			for _, extension := range []string{"", "x"} {
				for _, onError := range []OnError{ByPoint, AllowOnError, DenyOnError} {
					var seen []Step
					o := Options{Observe: func(_ *Event, s Step) { seen = append(seen, s) }}
					s := NewSet(o, Handler{Name: "h", Point: p, Extension: extension, OnError: onError, Run: run},
						says("later", p, nil, nil))
					out, err := s.Run(t.Context(), &Event{Point: p, Payload: json.RawMessage(`{}`)})
					denies := onError == DenyOnError || onError == ByPoint && extension == "" && p.Gate()
					if (out.Decision == Deny) != denies || (err != nil) != (denies && p.deniable()) ||
						(len(out.Steps) == 1) != denies {
						t.Errorf("%s at %s by %q, on_error %q: %+v, %v", how, p, extension, onError, out, err)
					}
					if len(seen) == 0 || seen[0].Err == nil || string(out.Payload) != `{}` {
						t.Errorf("%s at %s: observed %+v, payload %s", how, p, seen, out.Payload)
					}
				}
			}
		}
	}
}

func TestOverride(t *testing.T) {
	const payload = `{"n":12345678901234567890, "s":"\u00fc" ,"o":{"a":1,"b":2},"z":1.0e+2}`
	for _, tt := range []struct {
		name      string
		replies   []Reply
		want      string
		unchanged bool
	}{
		{"nothing", []Reply{{}}, payload, true},
		{"no member", []Reply{{Override: json.RawMessage(` { } `)}}, payload, true},
		{"the same", []Reply{{Override: json.RawMessage(`{"n":12345678901234567890}`)}}, "", true},
		{"one member", []Reply{{Override: json.RawMessage(`{"s":"x"}`)}},
			`{"n":12345678901234567890,"s":"x","o":{"a":1,"b":2},"z":1.0e+2}`, false},
		{"shallow", []Reply{{Override: json.RawMessage(`{"o":{"a":3}}`)}},
			`{"n":12345678901234567890,"s":"\u00fc","o":{"a":3},"z":1.0e+2}`, false},
		{"null deletes", []Reply{{Override: json.RawMessage(`{"s":null,"o":null,"gone":null}`)}},
			`{"n":12345678901234567890,"z":1.0e+2}`, false},
		{"new member", []Reply{{Override: json.RawMessage(`{"new":98765432109876543210}`)}},
			`{"n":12345678901234567890,"s":"\u00fc","o":{"a":1,"b":2},"z":1.0e+2,"new":98765432109876543210}`, false},
		{"two handlers", []Reply{
			{Override: json.RawMessage(`{"s":"1","o":null}`)},
			{Override: json.RawMessage(`{"s":"2"}`)},
		}, `{"n":12345678901234567890,"s":"2","z":1.0e+2}`, false},
		{"replace", []Reply{{Replace: json.RawMessage(`{"x":null}`)}}, `{"x":null}`, false},
		{"replace, then override",
			[]Reply{{Replace: json.RawMessage(`{"x":1,"y":2}`), Override: json.RawMessage(`{"x":null}`)}}, `{"y":2}`,
			false},
		{"and back", []Reply{{Replace: json.RawMessage(`{}`)}, {Replace: json.RawMessage(payload)}}, payload, true},
	} {
		var handlers []Handler
		var saw []string
		for i, r := range tt.replies {
			handlers = append(handlers, Handler{
				Name:  fmt.Sprint(i),
				Point: BeforeToolCall,
				Run: func(_ context.Context, e *Event) (*Reply, error) {
					saw = append(saw, string(e.Payload))
					return &r, nil
				},
			})
		}
		original := json.RawMessage(payload)
		out, err := NewSet(Options{}, handlers...).Run(t.Context(), &Event{Point: BeforeToolCall, Payload: original})
		if err != nil || tt.want != "" && string(out.Payload) != tt.want ||
			tt.name != "the same" && out.Changed == tt.unchanged {
			t.Errorf("%s: %s, changed %t, %v\nwant %s", tt.name, out.Payload, out.Changed, err, tt.want)
		}
		if string(original) != payload || saw[0] != payload || len(saw) > 1 && saw[1] == payload {
			t.Errorf("%s: the handlers saw %q; the event's own is %s", tt.name, saw, original)
		}
	}
}

// Handlers of tools_select can remove tools and cannot add any.
func TestToolsSelectNarrows(t *testing.T) {
	s := NewSet(Options{},
		says("1", ToolsSelect, &Reply{Override: json.RawMessage(`{"tools":["b","evil","a"],"mode":"auto"}`)}, nil),
		says("2", ToolsSelect, &Reply{Override: json.RawMessage(`{"tools":["c","b"]}`)}, nil))
	out, err := s.Run(t.Context(), &Event{Point: ToolsSelect, Payload: json.RawMessage(`{"tools":["a","b","c"]}`)})
	if want := `{"tools":["b"],"mode":"auto"}`; err != nil || string(out.Payload) != want {
		t.Errorf("%s, %v; want %s", out.Payload, err, want)
	}
}

func TestMatchers(t *testing.T) {
	for _, tt := range []struct {
		handler Handler
		event   Event
		want    bool
	}{
		{Handler{Matcher: "mcp__notes__.*"},
			Event{Point: BeforeToolCall, Extension: "notes", Tool: "ext_notes_add", OwnName: "add"}, true},
		{Handler{Matcher: "mcp__convert__run"},
			Event{Point: BeforeToolCall, Extension: "units.convert", Tool: "ext_units_convert_run", OwnName: "run"},
			true},
		{Handler{Matcher: "ext_notes_add"},
			Event{Point: AfterToolCall, Extension: "notes", Tool: "ext_notes_del", OwnName: "del"}, false},
		{Handler{Matcher: "weather"}, Event{Point: ExtensionState, Extension: "weather"}, true},
		{Handler{Matcher: "weather"}, Event{Point: ExtensionLoad, Extension: "notes"}, false},
		{Handler{Matcher: "resume|clear"}, Event{Point: SessionStart, Payload: json.RawMessage(`{"source":"startup"}`)},
			false},
		{Handler{Matcher: "logout"}, Event{Point: SessionEnd, Payload: json.RawMessage(`{"reason":"logout"}`)}, true},
		{Handler{Matcher: "Bash"}, Event{Point: BeforeMessage}, true}, // the point has no names to match
		{Handler{Extension: "a", Own: true}, Event{Point: BeforeToolCall, Extension: "a"}, true},
		{Handler{Extension: "a", Own: true}, Event{Point: BeforeToolCall, Extension: "b"}, false},
		{Handler{Extension: "a", Own: true, Servers: []string{"a.b"}}, Event{Point: BeforeToolCall, Extension: "a.b"}, true},
		{Handler{Extension: "a", Own: true, Servers: []string{"a.b"}}, Event{Point: BeforeToolCall, Extension: "a.c"}, false},
		{Handler{Extension: "a", Own: true}, Event{Point: SessionStart}, false},
		// names of other clients, in hooks of extensions alone
		{Handler{Extension: "p", Matcher: "mcp__plugin_p_.*"},
			Event{Point: BeforeToolCall, Extension: "p.s", Tool: "ext_p_s_t", OwnName: "t"}, true},
		{Handler{Extension: "p", Matcher: "mcp__plugin_p_p__t"},
			Event{Point: AfterToolCall, Extension: "p", Tool: "ext_p_t", OwnName: "t"}, true},
		{Handler{Extension: "p", Matcher: "mcp_s_t"},
			Event{Point: BeforeToolCall, Extension: "p.s", Tool: "ext_p_s_t", OwnName: "t"}, true},
		{Handler{Extension: "p", Matcher: "MCP:t|MCP:u"},
			Event{Point: ToolCallFailed, Extension: "p.s", Tool: "ext_p_s_t", OwnName: "t"}, true},
		{Handler{Extension: "p", Matcher: "t"},
			Event{Point: BeforeToolCall, Extension: "p.s", Tool: "ext_p_s_t", OwnName: "t"}, false},
		{Handler{Matcher: "plugin.*"},
			Event{Point: BeforeToolCall, Extension: "p.s", Tool: "ext_p_s_t", OwnName: "t"}, false},
	} {
		h := tt.handler
		h.Point, h.Run = tt.event.Point, func(context.Context, *Event) (*Reply, error) { return nil, nil }
		out, err := NewSet(Options{}, h).Run(t.Context(), &tt.event)
		if got := len(out.Steps) == 1; err != nil || got != tt.want {
			t.Errorf("%q of %+v: told %t, %v", h.Matcher, tt.event, got, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a bad matcher is accepted")
		}
	}()
	NewSet(Options{}, Handler{Matcher: "("})
}

// person answers approval requests.
type person struct {
	said  error
	asked []string
	how   protocol.Asking
}

func (p *person) Approve(_ context.Context, e *Event, o Outcome) error {
	p.asked, p.how = append(p.asked, o.By+" "+o.Reason+" "+string(e.Payload)), o.Asking
	return p.said
}

func TestAsk(t *testing.T) {
	ask := says("1", BeforeToolCall, &Reply{Decision: Ask, Reason: "sure?"}, nil)
	change := says("2", BeforeToolCall, &Reply{Override: json.RawMessage(`{"a":2}`)}, nil)
	e := Event{Point: BeforeToolCall, Payload: json.RawMessage(`{"a":1}`)}
	for _, tt := range []struct {
		name     string
		person   *person
		handlers []Handler
		asked    []string
		want     string // part of the error
	}{
		// the request shows the changed payload
		{"yes", &person{}, []Handler{ask, change}, []string{`1 sure? {"a":2}`}, ""},
		{"no", &person{said: errors.New("ana said no")}, []Handler{ask}, []string{`1 sure? {"a":1}`},
			"not approved: ana said no"},
		{"denied anyway", &person{},
			[]Handler{ask, says("3", BeforeToolCall, &Reply{Decision: Deny, Reason: "never"}, nil)}, nil,
			"hook 3: never"},
		{"nobody to ask", nil, []Handler{ask}, nil, "nobody to ask: sure?"},
	} {
		var o Options
		if tt.person != nil {
			o.Approver = tt.person
		}
		_, err := NewSet(o, tt.handlers...).Run(t.Context(), &e)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if tt.person != nil {
			if diff := cmp.Diff(tt.asked, tt.person.asked); diff != "" {
				t.Errorf("%s: %s", tt.name, diff)
			}
		}
	}
}

// Several hooks that ask are asked for in the most cautious way; an unknown word is the operator's.
func TestAskWhere(t *testing.T) {
	client := protocol.Asking{Where: protocol.InClient, Remember: protocol.RememberSession}
	for name, tt := range map[string]struct {
		answers []string
		want    protocol.Asking
	}{
		"one":      {[]string{`{"decision":"ask","where":"client","remember":"session"}`}, client},
		"not said": {[]string{`{"decision":"ask"}`}, protocol.Asking{}},
		"unknown":  {[]string{`{"decision":"ask","where":"clients","remember":7}`}, protocol.Asking{}},
		"one of two": {[]string{
			`{"decision":"ask","where":"client","remember":"session"}`, `{"decision":"ask"}`, `{"decision":"allow"}`,
		}, protocol.Asking{Where: protocol.AtOperator, Remember: protocol.RememberCall}},
		"two": {[]string{
			`{"decision":"ask","where":"client_then_operator","remember":"session"}`,
			`{"decision":"ask","where":"client","remember":"session"}`, `{"where":"operator"}`,
		}, protocol.Asking{Where: protocol.InClientThenOperator, Remember: protocol.RememberSession}},
	} {
		var handlers []Handler
		for _, answer := range tt.answers {
			reply, err := DecodeReply(json.RawMessage(answer))
			if err != nil {
				t.Fatal(err)
			}
			handlers = append(handlers, says("h", BeforeToolCall, reply, nil))
		}
		p := &person{}
		_, err := NewSet(Options{Approver: p}, handlers...).Run(t.Context(), &Event{Point: BeforeToolCall})
		if err != nil || p.how != tt.want {
			t.Errorf("%s: %+v, want %+v; %v", name, p.how, tt.want, err)
		}
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		for name, run := range map[string]func(context.Context, *Event) (*Reply, error){
			"polite": func(ctx context.Context, _ *Event) (*Reply, error) { <-ctx.Done(); return nil, ctx.Err() },
			"rude":   func(context.Context, *Event) (*Reply, error) { <-release; return nil, nil },
		} {
			for timeout, want := range map[time.Duration]time.Duration{0: DefaultTimeout, time.Second: time.Second} {
				began := time.Now()
				s := NewSet(Options{}, Handler{Name: "h", Point: BeforeToolCall, Timeout: timeout, Run: run})
				_, err := s.Run(t.Context(), &Event{Point: BeforeToolCall})
				if err == nil || !strings.Contains(err.Error(), "no answer within "+want.String()) {
					t.Errorf("%s: %v", name, err)
				}
				if took := time.Since(began); took < want || took > want+handlerGrace {
					t.Errorf("%s: after %v", name, took)
				}
			}
		}
		close(release)
	})
}

// A canceled caller is not a failure of the handler, and gets the error of its own context.
func TestCallerGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := NewSet(Options{}, Handler{
		Name:  "h",
		Point: BeforeToolCall,
		Run: func(ctx context.Context, _ *Event) (*Reply, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}, says("later", BeforeToolCall, &Reply{Decision: Deny}, nil))
	out, err := s.Run(ctx, &Event{Point: BeforeToolCall})
	if protocol.KindOf(err) != protocol.Canceled || len(out.Steps) != 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestContextsAreCollected(t *testing.T) {
	s := NewSet(Options{}, says("1", SessionStart, &Reply{Context: "a"}, nil), says("2", SessionStart, nil, nil),
		says("3", SessionStart, &Reply{Context: "b"}, nil))
	out, err := s.Run(t.Context(), &Event{Point: SessionStart})
	if diff := cmp.Diff([]string{"a", "b"}, out.Context); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
