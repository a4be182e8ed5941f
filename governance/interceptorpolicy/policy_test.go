package interceptorpolicy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/interceptorpolicy"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// server is an interceptor server with scripted answers that records its requests.
type server struct {
	pages  []string                                                              // results of interceptors/list
	list   error                                                                 // an error instead
	answer func(ctx context.Context, name string, params string) (string, error) // of interceptor/invoke

	mu     sync.Mutex
	listed int
	heard  []string // the params of interceptor/invoke
}

func (s *server) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	s.mu.Lock()
	switch method {
	case "interceptors/list":
		defer s.mu.Unlock()
		page := s.pages[min(s.listed, len(s.pages)-1)]
		s.listed++
		return json.RawMessage(page), s.list
	case "interceptor/invoke":
		s.heard = append(s.heard, string(params))
		s.mu.Unlock()
		name, _ := rawjson.Text(rawjson.Get(params, "name"))
		raw, err := s.answer(ctx, name, string(params))
		return json.RawMessage(raw), err
	}
	s.mu.Unlock()
	return nil, errors.New("called " + method)
}

// names returns the interceptors that were asked, in order.
func (s *server) names() (names []string) {
	for _, params := range s.heard {
		name, _ := rawjson.Text(rawjson.Get(json.RawMessage(params), "name"))
		names = append(names, name)
	}
	return names
}

// answers has each interceptor answer the same.
func (s *server) answers(texts map[string]string) *server {
	s.answer = func(_ context.Context, name, _ string) (string, error) {
		if texts[name] == "" {
			return "", protocol.Errorf(protocol.ExtensionError, "it crashed")
		}
		return texts[name], nil
	}
	return s
}

// lists makes a server that lists these interceptors on one page.
func lists(interceptors ...string) *server {
	return &server{pages: []string{`{"interceptors":[` + strings.Join(interceptors, ",") + `]}`}}
}

// validator and mutator hook tools/call in both phases; more are further members.
func validator(name, more string) string { return described(name, "validation", more) }
func mutator(name, more string) string   { return described(name, "mutation", more) }

func described(name, kind, more string) string {
	return fmt.Sprintf(`{"name":%q,"type":%q,"hooks":[{"events":["tools/call"],"phase":"request"},{"events":["tools/call"],"phase":"response"}]%s}`, name, kind, more)
}

// openOn returns the policy of spec on the server behind c.
func openOn(t *testing.T, c interceptorpolicy.Caller, spec governance.Spec) (*interceptorpolicy.Policy, error) {
	t.Helper()
	spec.Name, spec.Kind = "guard", governance.KindInterceptor
	spec.MCP = &governance.MCP{Proto: governance.ProtoStdio, Cmd: []string{"x"}}
	spec.Normalize()
	if problems := spec.Validate(); len(problems) > 0 {
		t.Fatal(problems)
	}
	p := interceptorpolicy.New(spec, c,
		interceptorpolicy.Options{Log: slog.New(slog.DiscardHandler), Version: func() string { return "2025-11-25" }})
	t.Cleanup(p.Close)
	return p, p.Open(t.Context())
}

func opened(t *testing.T, s interceptorpolicy.Caller, spec governance.Spec) *interceptorpolicy.Policy {
	t.Helper()
	p, err := openOn(t, s, spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestOpen(t *testing.T) {
	named := func(names ...string) governance.Spec { return governance.Spec{Interceptors: names} }
	with := func(more string) *server { return lists(validator("v", more)) }
	hooks := func(members string) *server { return lists(`{"name":"v","type":"validation",` + members + `}`) }
	for name, tt := range map[string]struct {
		s    *server
		spec governance.Spec
		kind protocol.Kind
		want string
	}{
		"one": {s: with("")},
		"with all its members": {
			s: with(`,"version":"1","description":"d","mode":"active","failOpen":false,"priorityHint":"ignored","compat":{"minProtocol":"2024-11-05"},"configSchema":{"type":"object"},"later":{"x":1}`),
		},
		"in an earlier form": {s: hooks(`"hook":{"events":["tools/call"],"phase":"both"},"mode":"enforce"`)},
		"a mutator": {
			s: lists(mutator("m", `,"priorityHint":{"request":-2147483648,"response":null}`)),
		},
		"on two pages": {
			s: &server{
				pages: []string{
					`{"interceptors":[` + validator("a", "") + `],"nextCursor":"2"}`,
					`{"interceptors":[` + validator("b", "") + `]}`,
				},
			},
			spec: named("b"),
		},
		"a tail that hooks nothing": {
			s: lists(validator("a", ""), `{"name":"b","type":"validation","hooks":[]}`,
				`{"name":"c","type":"mutation","hooks":[{"events":["llm/completion"],"phase":"request"}]}`),
		},

		"no interceptor server": {
			s: &server{
				pages: []string{""},
				list:  &protocol.Error{Kind: protocol.ExtensionError, Message: "Method not found", Code: -32601},
			},
			kind: protocol.HandshakeInvalid,
			want: "does not know interceptors/list",
		},
		"gone": {
			s:    &server{pages: []string{""}, list: protocol.Errorf(protocol.ChildExited, "gone")},
			kind: protocol.ChildExited,
			want: "gone",
		},
		"nothing": {
			s:    lists(),
			kind: protocol.HandshakeInvalid,
			want: "no interceptor of the server would ever be asked; it lists: ",
		},
		"nothing that occurs": {
			s:    hooks(`"hooks":[{"events":["llm/completion","tool/call"],"phase":"request"}]`),
			kind: protocol.HandshakeInvalid,
			want: "would ever be asked; it lists: v",
		},
		"a wildcard of no phase": {
			s:    hooks(`"hooks":[{"events":["*/request"],"phase":"response"}]`),
			kind: protocol.HandshakeInvalid,
			want: "would ever be asked",
		},
		"no list": {
			s:    &server{pages: []string{`{"interceptors":{}}`}},
			kind: protocol.HandshakeInvalid,
			want: "has no list of interceptors",
		},
		"null": {
			s:    &server{pages: []string{`{"interceptors":null}`}},
			kind: protocol.HandshakeInvalid,
			want: "has no list of interceptors",
		},
		"a list twice": {
			s:    &server{pages: []string{`{"interceptors":[],"interceptors":[]}`}},
			kind: protocol.HandshakeInvalid,
			want: "has no list of interceptors",
		},
		"a cursor that is none": {
			s:    &server{pages: []string{`{"interceptors":[` + validator("v", "") + `],"nextCursor":2}`}},
			kind: protocol.HandshakeInvalid,
			want: "the nextCursor of its interceptors/list is 2, not a text",
		},
		"endless": {
			s:    &server{pages: []string{`{"interceptors":[],"nextCursor":"x"}`}},
			kind: protocol.HandshakeInvalid,
			want: "does not end",
		},
		"too many": {
			s:    lists(slices.Repeat([]string{validator("v", "")}, 65)...),
			kind: protocol.HandshakeInvalid,
			want: "more than 64",
		},
		"no object": {s: lists(`"v"`), kind: protocol.HandshakeInvalid, want: "not a JSON object"},
		"a member twice": {
			s:    with(`,"type":"mutation"`),
			kind: protocol.HandshakeInvalid,
			want: "it says type twice",
		},
		"a name twice": {
			s:    lists(validator("v", ""), mutator("v", "")),
			kind: protocol.HandshakeInvalid,
			want: `it lists "v" twice`,
		},
		"a name twice, unchosen": {
			s:    lists(validator("v", ""), validator("w", ""), mutator("w", "")),
			spec: named("v"),
			kind: protocol.HandshakeInvalid,
			want: `it lists "w" twice`,
		},
		"no name": {
			s:    lists(`{"type":"validation"}`),
			kind: protocol.HandshakeInvalid,
			want: "has the name ",
		},
		"a hidden name": {
			s:    lists(validator("v\u200b", "")),
			kind: protocol.HandshakeInvalid,
			want: "not visible",
		},
		"another type": {
			s:    lists(validator("v", ""), described("log", "sink", "")),
			kind: protocol.HandshakeInvalid,
			want: `interceptor log: its type is "sink", neither validation nor mutation; to do without it, name the others in interceptors`,
		},
		"another type, unchosen": {s: lists(validator("v", ""), described("log", "sink", "")), spec: named("v")},
		"another mode": {
			s:    with(`,"mode":"dry-run"`),
			kind: protocol.HandshakeInvalid,
			want: `its mode is "dry-run"`,
		},
		"a failOpen that is text": {
			s:    with(`,"failOpen":"true"`),
			kind: protocol.HandshakeInvalid,
			want: `its failOpen is "true"`,
		},
		"no hook": {s: hooks(`"x":1`), kind: protocol.HandshakeInvalid, want: "either hooks or hook"},
		"both hooks": {
			s:    hooks(`"hooks":[],"hook":{}`),
			kind: protocol.HandshakeInvalid,
			want: "either hooks or hook",
		},
		"another phase": {
			s:    hooks(`"hooks":[{"events":["*"],"phase":"error"}]`),
			kind: protocol.HandshakeInvalid,
			want: `the phase of its hook is "error"`,
		},
		"events that are text": {
			s:    hooks(`"hooks":[{"events":"*","phase":"both"}]`),
			kind: protocol.HandshakeInvalid,
			want: `the events of its hook are "*", not a list`,
		},
		"an event that is null": {
			s:    hooks(`"hooks":[{"events":[null],"phase":"both"}]`),
			kind: protocol.HandshakeInvalid,
			want: `its hook has the event ""`,
		},
		"a pattern that is none": {
			s:    hooks(`"hooks":[{"events":["tools/[*"],"phase":"both"}]`),
			kind: protocol.HandshakeInvalid,
			want: `its hook has the event "tools/[*"`,
		},
		"a priority beyond range": {
			s:    lists(mutator("m", `,"priorityHint":2147483648`)),
			kind: protocol.HandshakeInvalid,
			want: "its priorityHint is 2147483648",
		},
		"a priority of a half": {
			s:    lists(mutator("m", `,"priorityHint":{"request":0.5}`)),
			kind: protocol.HandshakeInvalid,
			want: "not a whole number",
		},
		"for later versions": {
			s:    with(`,"compat":{"minProtocol":"2026-07-28"}`),
			kind: protocol.HandshakeInvalid,
			want: "it is for MCP 2026-07-28 to , and its server speaks 2025-11-25",
		},
		"for earlier versions": {
			s:    with(`,"compat":{"minProtocol":"2024-11-05","maxProtocol":"2025-06-18"}`),
			kind: protocol.HandshakeInvalid,
			want: "it is for MCP 2024-11-05 to 2025-06-18",
		},
		"for what versions": {
			s:    with(`,"compat":{"minProtocol":1}`),
			kind: protocol.HandshakeInvalid,
			want: "not a range of versions",
		},

		"one it lacks": {
			s:    lists(validator("guard", "")),
			spec: named("gard"),
			kind: protocol.ConfigInvalid,
			want: `the server has no interceptor "gard" (guard?); it has: guard`,
		},
		"a mutator that may not": {
			s:    lists(mutator("m", "")),
			spec: governance.Spec{Category: governance.Validation},
			kind: protocol.ConfigInvalid,
			want: "interceptor m changes payloads, which only category content may",
		},
		"a mutator that watches": {
			s:    lists(mutator("m", `,"mode":"audit"`)),
			spec: governance.Spec{Category: governance.Validation},
		},
		"a config of nobody": {
			s:    with(""),
			spec: governance.Spec{Config: map[string]any{"w": map[string]any{}}},
			kind: protocol.ConfigInvalid,
			want: `"w" is no interceptor of this policy`,
		},
		"a config that is text": {
			s:    with(""),
			spec: governance.Spec{Config: map[string]any{"v": "x"}},
			kind: protocol.ConfigInvalid,
			want: "config.v: an interceptor is configured by a table",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openOn(t, tt.s, tt.spec)
			if protocol.KindOf(err) != tt.kind || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %s: … %s", err, tt.kind, tt.want)
			}
		})
	}
}

var (
	toolCall = governance.Exchange{
		ID:        "d1",
		Method:    "tools/call",
		Caller:    "ann",
		Session:   "s1",
		Extension: "files",
		Tool:      "ext_files_read",
		ToChild:   true,
		Began:     time.Unix(0, 0),
		Request:   json.RawMessage(`{"name":"read","arguments":{"n":12345678901234567890,"f":1.50},"later":1}`),
		Response:  json.RawMessage(`{"content":[{"type":"text","text":"secret"}],"n":1.50}`),
	}
	failed = governance.Exchange{
		ID:       "d1",
		Method:   "tools/call",
		Tool:     "t",
		ToChild:  true,
		Began:    time.Unix(0, 0),
		Request:  json.RawMessage(`{"name":"t"}`),
		Response: json.RawMessage(`{"code":-1,"message":"no /secret","data":{"path":"/secret"}}`),
		Failure:  &protocol.Error{Kind: protocol.ExtensionError, Message: "no /secret"},
	}
	notRead = governance.Exchange{
		Method:   "resources/read",
		ToChild:  true,
		Began:    time.Unix(0, 0),
		Response: json.RawMessage(`{"code":-1,"message":"no"}`),
		Failure:  &protocol.Error{Kind: protocol.ExtensionError, Message: "no"},
	}
	bare   = governance.Exchange{Method: "tools/list", ToChild: true, Began: time.Unix(0, 0)}
	sample = governance.Exchange{
		Method:    "sampling/createMessage",
		Extension: "x",
		Began:     time.Unix(0, 0),
		Request:   json.RawMessage(`{"maxTokens":1e3}`),
		Response:  json.RawMessage(`{"role":"assistant"}`),
	}
)

const everything = `{"name":"v","type":"validation","hooks":[{"events":["*"],"phase":"request"},{"events":["*"],"phase":"response"}]}`

// TestInvocations compares the params of invocations with the exchange: payloads are the
// exchange's own text.
func TestInvocations(t *testing.T) {
	const anonymous = `"context":{"principal":{"type":"anonymous"},"timestamp":"1970-01-01T00:00:00Z"},"_meta":{"exthost/extension":"","exthost/tool":""}}`
	const ann = `"context":{"principal":{"type":"user","id":"ann"},"traceId":"d1","timestamp":"1970-01-01T00:00:00Z","sessionId":"s1"},"_meta":{"exthost/extension":"files","exthost/tool":"ext_files_read"}}`
	for name, tt := range map[string]struct {
		flow governance.Flow
		x    governance.Exchange
		spec governance.Spec
		want string
	}{
		"a request": {
			flow: governance.Request,
			x:    toolCall,
			want: `{"name":"v","event":"tools/call","phase":"request","payload":` + string(toolCall.Request) + `,` +
				ann,
		},
		"a request, enveloped": {
			flow: governance.Request,
			x:    toolCall,
			spec: governance.Spec{Envelope: true},
			want: `{"name":"v","event":"tools/call","phase":"request","payload":{"method":"tools/call","params":` +
				string(toolCall.Request) + `},` + ann,
		},
		"a response": {
			flow: governance.Response,
			x:    toolCall,
			want: `{"name":"v","event":"tools/call","phase":"response","payload":` + string(toolCall.Response) + `,` +
				ann,
		},
		"a response, enveloped": {
			flow: governance.Response,
			x:    toolCall,
			spec: governance.Spec{Envelope: true},
			want: `{"name":"v","event":"tools/call","phase":"response","payload":` + string(toolCall.Response) + `,` +
				ann,
		},
		"config": {
			flow: governance.Request,
			x:    bare,
			spec: governance.Spec{Config: map[string]any{"v": map[string]any{"max": 1}}},
			want: `{"name":"v","event":"tools/list","phase":"request","payload":{},"config":{"max":1},` + anonymous,
		},
		"of an extension": {
			flow: governance.Request,
			x:    sample,
			want: `{"name":"v","event":"sampling/createMessage","phase":"request","payload":{"maxTokens":1e3},` +
				strings.Replace(anonymous, `extension":""`, `extension":"x"`, 1),
		},
		"a tool's error": {flow: governance.Response, x: failed,
			want: `{"name":"v","event":"tools/call","phase":"response","payload":{"content":[{"type":"text","text":"no /secret"}],"isError":true,"structuredContent":{"path":"/secret"}},` +
				`"context":{"principal":{"type":"anonymous"},"traceId":"d1","timestamp":"1970-01-01T00:00:00Z"},"_meta":{"exthost/extension":"","exthost/tool":"t"}}`},
		"of another node": {
			flow: governance.Request,
			x: governance.Exchange{
				Method:  "tools/list",
				Node:    "web",
				ToChild: true,
				Began:   bare.Began,
				Request: json.RawMessage(`{}`),
			},
			want: `{"name":"v","event":"tools/list","phase":"request","payload":{},` + strings.TrimSuffix(anonymous,
				"}}") + `,"exthost/node":"web"}}`,
		},
		"another error": {
			flow: governance.Response,
			x:    notRead,
			want: `{"name":"v","event":"resources/read","phase":"response","payload":{"code":-1,"message":"no"},` +
				anonymous,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := lists(everything).answers(map[string]string{"v": `{"valid":true}`})
			d, err := opened(t, s, tt.spec).Decide(t.Context(), tt.flow, &tt.x)
			if diff := cmp.Diff(governance.Decision{}, d); err != nil || diff != "" {
				t.Errorf("decision (-want +got), %v:\n%s", err, diff)
			}
			if diff := cmp.Diff([]string{tt.want}, s.heard); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// Notifications and what opens a connection are no events, even for a wildcard.
func TestNoEvents(t *testing.T) {
	s := lists(everything)
	p := opened(t, s, governance.Spec{})
	for _, x := range []governance.Exchange{
		{Method: "notifications/message", Notify: true},
		{Method: "ping"},
		{Method: "initialize"},
	} {
		if d, err := p.Decide(t.Context(), governance.Request, &x); err != nil || d.Action != governance.Allow ||
			s.heard != nil {
			t.Errorf("%s: %+v, %v, asked %q", x.Method, d, err, s.heard)
		}
	}
}

func TestHooks(t *testing.T) {
	for events, want := range map[string]string{
		`"tools/call"`: "tools/call request, tools/call response",
		`"*"`: "tools/call request, tools/call response, tools/list request, tools/list " +
			"response, sampling/createMessage request, sampling/createMessage response",
		`"*/request"`: "tools/call request, tools/list request, sampling/createMessage request",
		`"*/response","tools/list"`: "tools/call response, tools/list request, tools/list response, " +
			"sampling/createMessage response",
		`"tools/*"`: "tools/call request, tools/call response, tools/list request, tools/list " +
			"response",
		`"Tools/call","tools/c","x/*"`: "",
	} {
		s := lists(`{"name":"v","type":"validation","hook":{"events":[`+events+`],"phase":"both"}}`,
			validator("other", "")).answers(map[string]string{
			"v":     `{"valid":false}`,
			"other": `{"valid":true}`,
		})
		p := opened(t, s, governance.Spec{})
		var got []string
		for _, x := range []governance.Exchange{toolCall, bare, sample} {
			for _, flow := range []governance.Flow{governance.Request, governance.Response} {
				d, err := p.Decide(t.Context(), flow, &x)
				if err != nil {
					t.Fatal(err)
				}
				if d.Action == governance.Deny {
					got = append(got, x.Method+" "+string(flow))
				}
			}
		}
		if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", events, diff)
		}
	}
}

func deny(code, reason string) governance.Decision {
	return governance.Decision{Action: governance.Deny, Code: code, Reason: reason}
}

// TestAnswers has one interceptor answer.
func TestAnswers(t *testing.T) {
	allow := governance.Decision{}
	noted := func(reason string) governance.Decision { return governance.Decision{Reason: reason} }
	modify := func(json_ string) governance.Decision {
		return governance.Decision{Action: governance.Modify, JSON: json.RawMessage(json_)}
	}
	const changed = `{"name":"read","arguments":{"n":12345678901234567891,"f":1.50}}`
	v, m := validator("i", ""), mutator("i", "")
	for name, tt := range map[string]struct {
		of, answer string
		want       governance.Decision
		text       string // of the error
		decided    bool   // whether the error is one of a policy that has decided
	}{
		"valid": {
			of:     v,
			answer: `{"interceptor":"i","type":"validation","phase":"request","durationMs":1.5,"valid":true,"later":{}}`,
		},
		"valid, in short": {of: v, answer: `{"valid":true}`},
		"valid, with a word": {
			of:     v,
			answer: `{"valid":true,"severity":"info","messages":[{"message":"seen","severity":"info"}]}`,
			want:   noted("i: seen"),
		},
		"valid, of grave severity": {of: v, answer: `{"valid":true,"severity":"error"}`},
		"valid, of what severity":  {of: v, answer: `{"valid":true,"severity":"fatal"}`},
		"not valid": {
			of:     v,
			answer: `{"valid":false,"severity":"error","messages":[{"path":"arguments.n","message":"too big","severity":"error"},{"message":"and odd","severity":"error"}],"suggestions":[{"path":"arguments.n","value":1}],"info":{"code":"too_big"}}`,
			want:   deny("too_big", "i: too big (arguments.n), and odd"),
		},
		"not valid, in short":      {of: v, answer: `{"valid":false}`, want: deny("", "i refuses it")},
		"not valid, severity null": {of: v, answer: `{"valid":false,"severity":null}`, want: deny("", "i refuses it")},
		"not valid, severity new": {
			of:     v,
			answer: `{"valid":false,"severity":"critical","messages":[{"message":"no"}]}`,
			want:   deny("", "i: no"),
		},
		"not valid, severity 1": {of: v, answer: `{"valid":false,"severity":1}`, want: deny("", "i refuses it")},
		"not valid, messages apart": {
			of:     v,
			answer: `{"valid":false,"messages":[{"message":1},"x",{"path":"p"}],"info":5}`,
			want:   deny("", "i refuses it"),
		},
		"a warning": {
			of:     v,
			answer: `{"valid":false,"severity":"warn","messages":[{"message":"long","severity":"error"}]}`,
			want:   noted("i: long"),
		},
		"a hint": {
			of:     v,
			answer: `{"valid":false,"severity":"info"}`,
			want:   noted("i finds it not valid (info)"),
		},

		"no object":        {of: v, answer: `true`, text: "not a JSON object"},
		"nothing":          {of: v, answer: `{}`, text: "its valid is absent"},
		"null":             {of: v, answer: `{"valid":null}`, text: "its valid is null", decided: true},
		"a text":           {of: v, answer: `{"valid":"false"}`, text: `its valid is "false"`, decided: true},
		"another spelling": {of: v, answer: `{"Valid":true}`, text: "its valid is absent"},
		"twice": {
			of:      v,
			answer:  `{"valid":true,"valid":false}`,
			text:    "it says valid twice",
			decided: true,
		},
		"nested": {of: v, answer: `{"validation":{"valid":true}}`, text: "its valid is absent"},
		"of another": {
			of:     v,
			answer: `{"interceptor":"j","valid":true}`,
			text:   `its interceptor is "j", not i`,
		},
		"of another that refuses": {
			of:      v,
			answer:  `{"interceptor":"j","valid":false}`,
			text:    `its interceptor is "j", not i`,
			decided: true,
		},
		"of another phase": {
			of:     v,
			answer: `{"phase":"response","valid":true}`,
			text:   `its phase is "response", not request`,
		},
		"of another type": {
			of:     v,
			answer: `{"type":"mutation","valid":true}`,
			text:   `its type is "mutation"`,
		},
		"a mutation of a validator": {
			of:     v,
			answer: `{"type":"mutation","modified":true,"payload":{}}`,
			text:   `its type is "mutation"`,
		},
		"an error": {of: v, text: "interceptor i: it crashed"},
		"a validation of a mutator": {
			of:     m,
			answer: `{"type":"validation","valid":true}`,
			text:   `its type is "validation"`,
		},
		"modified, no object": {
			of:      m,
			answer:  `{"modified":true,"payload":["x"]}`,
			text:    "the payload that it returns cannot be used: not a JSON object",
			decided: true,
		},
		"modified, no payload": {
			of:      m,
			answer:  `{"modified":true}`,
			text:    "it has modified the payload, which it does not return",
			decided: true,
		},
		"modified, null": {
			of:      m,
			answer:  `{"modified":true,"payload":null}`,
			text:    "which it does not return",
			decided: true,
		},
		"modified or not": {
			of:      m,
			answer:  `{"modified":"no","payload":{}}`,
			text:    `its modified is "no"`,
			decided: true,
		},
		"modified, of another phase": {
			of:      m,
			answer:  `{"modified":true,"phase":"response","payload":{}}`,
			text:    `its phase is "response"`,
			decided: true,
		},
		"a payload alone": {of: m, answer: `{"payload":{}}`, text: "its modified is absent"},
		"modified": {
			of: m,
			answer: `{"interceptor":"i","type":"mutation","phase":"request","modified":true,"payload":` + changed +
				`,"info":{"n":1}}`,
			want: modify(changed),
		},
		"not modified":           {of: m, answer: `{"modified":false,"payload":{"name":"ignored"}}`},
		"not modified, in short": {of: m, answer: `{"modified":false}`},
		"open, an error": {
			of:   validator("i", `,"failOpen":true`),
			want: noted("interceptor i: it crashed (extension_error)"),
		},
		"open, nothing": {
			of:     validator("i", `,"failOpen":true`),
			answer: `{}`,
			want: noted("interceptor i: its answer cannot be read: its valid is absent, neither true nor false " +
				"(invalid_response)"),
		},
		"open, not valid": {
			of:     validator("i", `,"failOpen":true`),
			answer: `{"valid":false}`,
			want:   deny("", "i refuses it"),
		},
		"open, not readable": {
			of:      validator("i", `,"failOpen":true`),
			answer:  `{"valid":0}`,
			text:    "its valid is 0",
			decided: true,
		},
		"open, modified to a list": {
			of:      mutator("i", `,"failOpen":true`),
			answer:  `{"modified":true,"payload":[]}`,
			text:    "cannot be used",
			decided: true,
		},
		"open, a mutator's error": {
			of:   mutator("i", `,"failOpen":true`),
			want: noted("interceptor i: it crashed (extension_error)"),
		},
		"audit, not valid": {
			of:     validator("i", `,"mode":"audit"`),
			answer: `{"valid":false,"info":{"code":"c"}}`,
			want:   governance.Decision{Action: governance.Deny, Code: "c", Reason: "i refuses it", Shadow: true},
		},
		"audit, a warning": {
			of:     validator("i", `,"mode":"audit"`),
			answer: `{"valid":false,"severity":"warn"}`,
			want:   noted("i finds it not valid (warn)"),
		},
		"audit, an error": {
			of:   validator("i", `,"mode":"audit"`),
			want: noted("interceptor i: it crashed (extension_error)"),
		},
		"audit, not readable": {
			of:     validator("i", `,"mode":"audit"`),
			answer: `{"valid":0}`,
			want: noted("interceptor i: it has decided, and the decision cannot be carried out: its answer cannot " +
				"be read: its valid is 0, neither true nor false (invalid_response)"),
		},
		"audit, modified": {
			of:     mutator("i", `,"mode":"audit"`),
			answer: `{"modified":true,"payload":` + changed + `}`,
			want: governance.Decision{
				Action: governance.Modify,
				Reason: "i changes it",
				JSON:   json.RawMessage(changed),
				Shadow: true,
			},
		},
		"audit, not modified": {of: mutator("i", `,"mode":"audit"`), answer: `{"modified":false}`, want: allow},
	} {
		t.Run(name, func(t *testing.T) {
			s := lists(tt.of).answers(map[string]string{"i": tt.answer})
			x := toolCall
			d, err := opened(t, s, governance.Spec{}).Decide(t.Context(), governance.Request, &x)
			if diff := cmp.Diff(tt.want, d); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err != nil) != (tt.text != "") || err != nil && !strings.Contains(err.Error(), tt.text) ||
				errors.Is(err, governance.ErrDecided) != tt.decided {
				t.Errorf("error %v, want … %s (decided: %t)", err, tt.text, tt.decided)
			}
			if diff := cmp.Diff(toolCall, x); diff != "" {
				t.Errorf("it changed the exchange (-before +after):\n%s", diff)
			}
		})
	}
}

// A response that two readers may understand in different ways is not decided about, unless
// nothing depends on it.
func TestT19ResponsesThatAreReadInTwoWays(t *testing.T) {
	x := toolCall
	x.Response = json.RawMessage(`{"content":[{"type":"text","text":"a","text":"b"}]}`)
	for mode, fails := range map[string]bool{"active": true, "audit": false} {
		for _, of := range []string{
			validator("i", `,"mode":"`+mode+`"`),
			mutator("i", `,"failOpen":true,"mode":"`+mode+`"`),
		} {
			s := lists(of).answers(map[string]string{"i": `{"valid":true,"modified":false}`})
			_, err := opened(t, s, governance.Spec{}).Decide(t.Context(), governance.Response, &x)
			if (err != nil) != fails || fails == (len(s.heard) > 0) {
				t.Errorf("%s: %v, asked %q", of, err, s.heard)
			}
		}
	}
}

// A change of what stands for the exchange becomes a change of the exchange.
func TestChanges(t *testing.T) {
	for name, tt := range map[string]struct {
		flow     governance.Flow
		x        governance.Exchange
		envelope bool
		payload  string
		want     string
		text     string
	}{
		"enveloped": {
			flow:     governance.Request,
			x:        toolCall,
			envelope: true,
			payload:  `{"method":"tools/call","params":{"name":"read"}}`,
			want:     `{"name":"read"}`,
		},
		"of another method": {
			flow:     governance.Request,
			x:        toolCall,
			envelope: true,
			payload:  `{"method":"tools/list","params":{}}`,
			text:     `its method is "tools/list", not tools/call`,
		},
		"without its params": {
			flow:     governance.Request,
			x:        toolCall,
			envelope: true,
			payload:  `{"method":"tools/call"}`,
			text:     "its params are not an object",
		},
		"its response is bare": {
			flow:     governance.Response,
			x:        toolCall,
			envelope: true,
			payload:  `{"content":[]}`,
			want:     `{"content":[]}`,
		},
		"a tool's error": {
			flow:    governance.Response,
			x:       failed,
			payload: `{"content":[{"type":"text","text":"no ***"}],"isError":true,"structuredContent":{"path":"***"}}`,
			want:    `{"code":-1,"message":"no ***","data":{"path":"***"}}`,
		},
		"its data taken out": {
			flow:    governance.Response,
			x:       failed,
			payload: `{"content":[{"type":"text","text":"no ***"}]}`,
			want:    `{"code":-1,"message":"no ***"}`,
		},
		"another method's error": {
			flow:    governance.Response,
			x:       notRead,
			payload: `{"code":-1,"message":"***"}`,
			want:    `{"code":-1,"message":"***"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := lists(`{"name":"m","type":"mutation","hook":{"events":["*"],"phase":"both"}}`).answers(
				map[string]string{
					"m": `{"modified":true,"payload":` + tt.payload + `}`,
				})
			d, err := opened(t, s, governance.Spec{Envelope: tt.envelope}).Decide(t.Context(), tt.flow, &tt.x)
			if string(d.JSON) != tt.want || (err != nil) != (tt.text != "") ||
				err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s, %v", d.JSON, err)
			}
		})
	}
}
