package governance_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

// policyFunc is a policy made of one function.
type policyFunc func(ctx context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error)

func (f policyFunc) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	return f(ctx, flow, x)
}

// always returns d for every exchange.
func always(d governance.Decision) policyFunc {
	return func(context.Context, governance.Flow, *governance.Exchange) (governance.Decision, error) {
		return d, nil
	}
}

// in returns d in one flow and allows the other.
func in(flow governance.Flow, d governance.Decision) policyFunc {
	return func(_ context.Context, f governance.Flow, _ *governance.Exchange) (governance.Decision, error) {
		if f != flow {
			return governance.Decision{}, nil
		}
		return d, nil
	}
}

// failing returns an error for every exchange.
var failing = policyFunc(func(context.Context, governance.Flow, *governance.Exchange) (governance.Decision, error) {
	return governance.Decision{}, errors.New("its database is down")
})

func member(name string, c governance.Category, p governance.Policy) governance.Member {
	return governance.Member{Spec: governance.Spec{Name: name, Category: c}, Policy: p}
}

// newPipeline returns a pipeline that t's cleanup closes.
func newPipeline(t testing.TB, o governance.Options, members ...governance.Member) *governance.Pipeline {
	p := governance.NewPipeline(o, members...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

func toolCall() *governance.Exchange {
	return &governance.Exchange{
		Method:    protocol.MethodToolsCall,
		Caller:    "ada",
		Session:   "s",
		Extension: "x",
		Tool:      "ext_x_work",
		ToChild:   true,
		Request:   json.RawMessage(`{"name":"work","arguments":{"a":1}}`),
	}
}

// answer returns a send that stores the request in got and responds.
func answer(with string, got *string) governance.Stage {
	return func(_ context.Context, x *governance.Exchange) error {
		if got != nil {
			*got = string(x.Request)
		}
		x.Response = json.RawMessage(with)
		return nil
	}
}

func refusalOf(t *testing.T, err error) governance.Refusal {
	t.Helper()
	var e *protocol.Error
	var r governance.Refusal
	if !errors.As(err, &e) {
		t.Fatalf("err = %v, which is no *protocol.Error", err)
	}
	if err := json.Unmarshal(e.Data, &r); err != nil {
		t.Fatalf("data %s: %v", e.Data, err)
	}
	return r
}

// seen records the flow and name of each policy that is asked.
type seen struct {
	mu    sync.Mutex
	steps []string
}

func (s *seen) policy(name string) governance.Policy {
	return policyFunc(func(_ context.Context, flow governance.Flow,
		_ *governance.Exchange) (governance.Decision, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.steps = append(s.steps, string(flow)+" "+name)
		return governance.Decision{}, nil
	})
}

func TestOrder(t *testing.T) {
	var s seen
	var members []governance.Member
	add := func(name string, c governance.Category, priority int) {
		m := member(name, c, s.policy(name))
		m.Spec.Priority = priority
		members = append(members, m)
	}
	for _, c := range []governance.Category{governance.Audit, governance.Content, governance.Validation,
		governance.RateLimiting,
		governance.Authorization, governance.Authentication, governance.Observability} {
		add(string(c), c, 0)
	}
	add("b", governance.Validation, -1)
	add("a", governance.Validation, -1)
	add("first", governance.Validation, -2)
	add("z", governance.Validation, 0)
	disabled := member("disabled", governance.Validation, nil)
	disabled.Spec.Disabled = true
	p := newPipeline(t, governance.Options{}, append(members, disabled)...)
	after := func(context.Context, *governance.Exchange) error { s.steps = append(s.steps, "after"); return nil }
	if err := p.Govern(t.Context(), toolCall(), answer(`{}`, nil), after); err != nil {
		t.Fatal(err)
	}
	order := []string{"observability", "authentication", "authorization", "rate_limiting", "first", "a", "b",
		"validation", "z", "content"}
	var want []string
	for _, name := range append(order, "audit") {
		want = append(want, "request "+name)
	}
	for _, name := range order {
		want = append(want, "response "+name)
	}
	want = append(want, "after", "response audit")
	if diff := cmp.Diff(want, s.steps); diff != "" {
		t.Error(diff)
	}
}

// placed is a policy that runs after those of all layers.
type placed struct{ governance.Policy }

func (placed) Priority() int { return 1000 }

// Within a category, no priority puts a policy of a weaker layer behind one of a stronger.
func TestOrderOfLayers(t *testing.T) {
	var s seen
	var members []governance.Member
	for name, place := range map[string]struct {
		layer    governance.Layer
		priority int
	}{
		"a program":      {governance.LayerProgram, -9},
		"a system":       {governance.LayerSystem, -5},
		"a user":         {governance.LayerUser, 0},
		"project":        {governance.LayerProject, 2000},
		"project, first": {governance.LayerProject, 0},
	} {
		m := member(name, governance.Content, s.policy(name))
		m.Spec.Layer, m.Spec.Priority = place.layer, place.priority
		members = append(members, m)
	}
	stated := member("project, stated", governance.Content, placed{s.policy("project, stated")})
	stated.Spec.Priority = 1
	members = append(members, member("a size cap", governance.Content, placed{s.policy("a size cap")}), stated)
	err := newPipeline(t, governance.Options{}, members...).Govern(t.Context(), toolCall(), answer(`{}`, nil))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, flow := range []string{"request ", "response "} {
		for _, name := range []string{
			"project, first",
			"project, stated",
			"project",
			"a user",
			"a system",
			"a program",
			"a size cap",
		} {
			want = append(want, flow+name)
		}
	}
	if diff := cmp.Diff(want, s.steps); diff != "" {
		t.Error(diff)
	}
}

func TestEmptyPipelineAllocatesNothing(t *testing.T) {
	p, x := governance.NewPipeline(governance.Options{}), toolCall()
	send := func(context.Context, *governance.Exchange) error { return nil }
	n := testing.AllocsPerRun(100, func() {
		tool := governance.Tool{Extension: "x", Name: "ext_x_work"}
		if err := p.Govern(t.Context(), x, send, send); err != nil || !p.Visible("ada", tool) {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("an exchange that no policy sees costs %v allocations", n)
	}
	if x.ID != "" {
		t.Errorf("it has the decision id %q", x.ID)
	}
}

func TestEmptyPipelinePassesFailuresOn(t *testing.T) {
	var p governance.Pipeline
	cause := errors.New("no disk")
	send := func(context.Context, *governance.Exchange) error { return cause }
	if err := p.Govern(t.Context(), toolCall(), send); !errors.Is(err, cause) {
		t.Errorf("err = %v", err)
	}
	var failed string
	x := toolCall()
	err := p.Govern(t.Context(), x, send,
		func(_ context.Context, x *governance.Exchange) error { failed = x.Failure.Message; return nil })
	if !errors.Is(err, cause) || failed != "no disk" {
		t.Errorf("err = %v; the next stage saw %q", err, failed)
	}
	if err := p.Again(t.Context(), governance.Request, x); err != nil {
		t.Error(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestOnlyContentPoliciesChangePayloads follows a change to the next policy, the extension and the
// caller.
func TestOnlyContentPoliciesChangePayloads(t *testing.T) {
	changes := func(request, response string) policyFunc {
		return func(_ context.Context, flow governance.Flow, _ *governance.Exchange) (governance.Decision, error) {
			d := governance.Decision{Action: governance.Modify, JSON: json.RawMessage(request)}
			if flow == governance.Response {
				d.JSON = json.RawMessage(response)
			}
			return d, nil
		}
	}
	var log strings.Builder
	next := &payloads{}
	p := newPipeline(t, governance.Options{Log: slog.New(slog.NewTextHandler(&log, nil))},
		member("sneaky", governance.Authorization, changes(`{"name":"other"}`, `{}`)),
		member("masker", governance.Content, changes(`{"name":"work","arguments":{"masked":1.00}}`, `{"masked":2e1}`)),
		member("next", governance.Content, next))
	var sent string
	x := toolCall()
	if err := p.Govern(t.Context(), x, answer(`{"original":true}`, &sent)); err != nil {
		t.Fatal(err)
	}
	got := append(next.seen, sent, string(x.Response))
	want := []string{
		`{"name":"work","arguments":{"masked":1.00}}`,
		`{"masked":2e1}`,
		`{"name":"work","arguments":{"masked":1.00}}`,
		`{"masked":2e1}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(log.String(), "policy=sneaky") || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("log = %q", log.String())
	}
}

// payloads records the payload of each flow.
type payloads struct{ seen []string }

func (p *payloads) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	if flow == governance.Request {
		p.seen = append(p.seen, string(x.Request))
	} else {
		p.seen = append(p.seen, string(x.Response))
	}
	return governance.Decision{}, nil
}

// TestInvalidChangesEndTheExchange checks that an invalid change ends the exchange before
// anything is sent.
func TestInvalidChangesEndTheExchange(t *testing.T) {
	tests := []struct{ name, json, want string }{
		{"garbage", `{"name":`, "is not JSON"},
		{"nothing", ``, "is not JSON"},
		{"a list", `[1]`, "is not an object"},
		{"too large", `{"name":"work","arguments":{"a":"` + strings.Repeat("a", 200) + `"}}`, "over the limit of 200"},
		{"another tool", `{"name":"rm","arguments":{}}`, `calls "rm" instead of "work"`},
		{"no tool", `{"arguments":{}}`, `calls "" instead of "work"`},
		{"two tools", `{"name":"work","name":"rm"}`, `the member "name" stands there twice`},
		{"two spellings", `{"name":"work","Name":"rm"}`, `the member "Name" stands beside "name"`},
		{"a folded spelling", `{"name":"work","argumentſ":{}}`, `a member "argumentſ" in place of "arguments"`},
		{"arguments of another shape", `{"name":"work","arguments":[1]}`, "arguments that are not an object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPipeline(t, governance.Options{MaxJSON: 200},
				member("c", governance.Content,
					always(governance.Decision{Action: governance.Modify, JSON: json.RawMessage(tt.json)})))
			sent := "nothing"
			err := p.Govern(t.Context(), toolCall(), answer(`{}`, &sent))
			if protocol.KindOf(err) != protocol.GovernanceUnavailable || !strings.Contains(err.Error(), tt.want) ||
				sent != "nothing" {
				t.Errorf("err = %v; %s was sent", err, sent)
			}
		})
	}
}

func TestForbiddenActions(t *testing.T) {
	respond := governance.Decision{Action: governance.Respond, JSON: json.RawMessage(`{}`)}
	tests := []struct {
		name string
		spec governance.Spec
		d    governance.Policy
		want string
	}{
		{"an external policy answers", governance.Spec{Category: governance.Validation, Kind: governance.KindGRPC},
			always(respond), "it answers itself"},
		{"an observer answers", governance.Spec{Category: governance.Observability}, always(respond),
			"it answers itself"},
		{"an answer after the answer", governance.Spec{Category: governance.Content}, in(governance.Response, respond),
			"what has been answered"},
		{"an observer asks", governance.Spec{Category: governance.Observability},
			always(governance.Decision{Action: governance.Ask}), "it asks for an approval"},
		{"audit asks", governance.Spec{Category: governance.Audit}, always(governance.Decision{Action: governance.Ask}),
			"it asks for an approval"},
		{"a new word", governance.Spec{Category: governance.Audit}, always(governance.Decision{Action: "perhaps"}),
			`"perhaps" is none of`},
		{"a panic", governance.Spec{Category: governance.Validation},
			policyFunc(func(context.Context, governance.Flow, *governance.Exchange) (governance.Decision, error) {
				panic("oh")
			}), "it panicked: oh"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.Name = "p"
			p := newPipeline(t, governance.Options{}, governance.Member{Spec: tt.spec, Policy: tt.d})
			err := p.Govern(t.Context(), toolCall(), answer(`{}`, nil))
			if protocol.KindOf(err) != protocol.GovernanceUnavailable || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func TestRefusalData(t *testing.T) {
	d := governance.Decision{
		Action:     governance.Deny,
		Code:       "quota",
		Reason:     "come back later",
		RetryAfter: 1500 * time.Millisecond,
		Data:       json.RawMessage(`{"left":0}`),
	}
	x := toolCall()
	p := newPipeline(t, governance.Options{}, member("quota", governance.RateLimiting, always(d)))
	err := p.Govern(t.Context(), x, answer(`{}`, nil))
	var e *protocol.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	want := `{"code":"quota","policy":"quota","decision_id":"` + x.ID + `","retry_after_ms":1500,"data":{"left":0}}`
	if string(e.Data) != want || e.RetryAfter != d.RetryAfter ||
		e.Error() != "ext_x_work: policy quota: come back later (rejected)" {
		t.Errorf("%v, again after %s, data %s\nwant %s", e, e.RetryAfter, e.Data, want)
	}
	for _, tt := range []struct {
		category governance.Category
		code     string
	}{
		{governance.Authentication, "unauthenticated"},
		{governance.Authorization, "unauthorized"},
		{governance.RateLimiting, "rate_limited"},
		{governance.Validation, "invalid_request"},
		{governance.Content, "rejected"},
	} {
		p := newPipeline(t, governance.Options{},
			member("p", tt.category, always(governance.Decision{Action: governance.Deny, Data: json.RawMessage(`{`)})))
		if r := refusalOf(t, p.Govern(t.Context(), toolCall(), answer(`{}`, nil))); r.Code != tt.code || r.Data != nil {
			t.Errorf("%s: %+v", tt.category, r)
		}
	}
}

func TestRespondAnswersWithoutTheExtension(t *testing.T) {
	var s seen
	p := newPipeline(t, governance.Options{},
		member("cache", governance.Content,
			in(governance.Request,
				governance.Decision{
					Action: governance.Respond,
					JSON:   json.RawMessage(`{"cached":true}`),
					Code:   "hit",
				})),
		member("later", governance.Content, s.policy("later")))
	x := toolCall()
	sent := "nothing"
	if err := p.Govern(t.Context(), x, answer(`{}`, &sent)); err != nil {
		t.Fatal(err)
	}
	if sent != "nothing" || string(x.Response) != `{"cached":true}` ||
		x.Verdict != (governance.Verdict{Action: governance.Respond, Policy: "cache", Code: "hit"}) {
		t.Errorf("%s was sent; the answer is %s, %+v", sent, x.Response, x.Verdict)
	}
	if diff := cmp.Diff([]string{"response later"}, s.steps); diff != "" {
		t.Error(diff)
	}
}

func TestNotificationsHaveARequestFlowOnly(t *testing.T) {
	var s seen
	p := newPipeline(t, governance.Options{}, member("v", governance.Validation, s.policy("v")),
		member("a", governance.Audit, s.policy("a")))
	x := &governance.Exchange{Method: "notifications/progress", Notify: true}
	after := func(context.Context, *governance.Exchange) error { s.steps = append(s.steps, "after"); return nil }
	send := func(context.Context, *governance.Exchange) error { s.steps = append(s.steps, "sent"); return nil }
	if err := p.Govern(t.Context(), x, send, after); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"request v", "sent", "request a"}, s.steps); diff != "" {
		t.Error(diff)
	}
}

// TestFailuresPassTheResponseFlow has every policy decide about the errors of extensions, and
// content policies about errors of the host that may quote an extension.
func TestFailuresPassTheResponseFlow(t *testing.T) {
	mask := policyFunc(func(_ context.Context, flow governance.Flow,
		x *governance.Exchange) (governance.Decision, error) {
		if flow == governance.Request {
			return governance.Decision{}, nil
		}
		masked := strings.ReplaceAll(string(x.Response), "AKIA", "****")
		return governance.Decision{Action: governance.Modify, JSON: json.RawMessage(masked)}, nil
	})
	var s seen
	watch := &payloads{}
	p := newPipeline(t, governance.Options{}, member("mask", governance.Content, mask),
		member("authz", governance.Authorization, s.policy("authz")), member("watch", governance.Audit, watch))
	own := &protocol.Error{
		Kind:    protocol.ExtensionError,
		Message: "bad key AKIA",
		Code:    7,
		Data:    json.RawMessage(`{"key":"AKIA","n":1.0}`),
	}
	for _, tt := range []struct {
		in   *protocol.Error
		want protocol.WireError
	}{
		{own, protocol.WireError{Code: 7, Message: "bad key ****", Data: json.RawMessage(`{"key":"****","n":1.0}`)}},
		{&protocol.Error{Kind: protocol.ExtensionError, Message: "fine"},
			protocol.WireError{Code: -32603, Message: "fine"}},
		{&protocol.Error{Kind: protocol.HandshakeInvalid, Message: "it said AKIA"},
			(&protocol.Error{Kind: protocol.HandshakeInvalid, Message: "it said ****"}).Wire()},
		{&protocol.Error{Kind: protocol.ChildExited, Message: "it said AKIA", Outcome: "unknown"},
			(&protocol.Error{Kind: protocol.ChildExited, Message: "it said ****", Outcome: "unknown"}).Wire()},
		{&protocol.Error{Kind: protocol.CallTimeout, Message: "slow AKIA"},
			(&protocol.Error{Kind: protocol.CallTimeout, Message: "slow AKIA"}).Wire()},
	} {
		x := toolCall()
		err := p.Govern(t.Context(), x, func(context.Context, *governance.Exchange) error { return tt.in })
		var e *protocol.Error
		if !errors.As(err, &e) || x.Failure != e || x.Response != nil {
			t.Fatalf("err = %v, x = %+v", err, x)
		}
		if diff := cmp.Diff(tt.want, e.Wire()); diff != "" || e.Outcome != tt.in.Outcome {
			t.Errorf("%s, outcome %q", diff, e.Outcome)
		}
	}
	if own.Message != "bad key AKIA" {
		t.Error("the error of other calls that failed with this one was changed")
	}
	diff := cmp.Diff([]string{
		"request authz",
		"response authz",
		"response authz",
		"request authz",
		"response authz",
		"request authz",
		"request authz",
		"request authz",
	}, s.steps)
	if diff != "" {
		t.Error(diff)
	}
	refuse := newPipeline(t, governance.Options{},
		member("no", governance.Content, in(governance.Response, governance.Decision{Action: governance.Deny})))
	err := refuse.Govern(t.Context(), toolCall(), func(context.Context, *governance.Exchange) error { return own })
	if r := refusalOf(t, err); !r.Executed || protocol.KindOf(err) != protocol.Rejected {
		t.Errorf("%v, %+v", err, r)
	}
	broken := newPipeline(t, governance.Options{},
		member("no", governance.Content,
			in(governance.Response,
				governance.Decision{Action: governance.Modify, JSON: json.RawMessage(`{"content":[]}`)})))
	err = broken.Govern(t.Context(), toolCall(), func(context.Context, *governance.Exchange) error { return own })
	if protocol.KindOf(err) != protocol.GovernanceUnavailable {
		t.Errorf("an error that is none: %v", err)
	}
}
