package governance_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

// forbids denies payloads of the flow that have a member "evil" in arguments.
func forbids(flow governance.Flow) policyFunc {
	return func(_ context.Context, f governance.Flow, x *governance.Exchange) (governance.Decision, error) {
		payload := x.Request
		if f == governance.Response {
			payload = x.Response
		}
		var o struct{ Evil, Arguments struct{ Evil *bool } }
		if err := json.Unmarshal(payload, &o); err != nil {
			return governance.Decision{}, err
		}
		if f == flow && o.Arguments.Evil != nil {
			return governance.Decision{Action: governance.Deny, Code: "evil"}, nil
		}
		return governance.Decision{}, nil
	}
}

// TestHooksCannotSmuggle denies a change that a hook made after the request was allowed.
func TestHooksCannotSmuggle(t *testing.T) {
	smuggled := json.RawMessage(`{"name":"work","arguments":{"evil":true}}`)
	var p *governance.Pipeline
	audited := &outcomes{}
	traces := governance.NewTraces(1)
	p = newPipeline(t, governance.Options{Traces: traces},
		member("authz", governance.Authorization, forbids(governance.Request)),
		member("after", governance.Authorization, forbids(governance.Response)),
		member("audit", governance.Audit, audited))

	ran := false
	err := p.Govern(t.Context(), toolCall(), func(ctx context.Context, x *governance.Exchange) error {
		x.Request = smuggled
		if err := p.Again(ctx, governance.Request, x); err != nil {
			return err
		}
		ran = true
		return nil
	})
	if r := refusalOf(t, err); ran || r.Policy != "authz" || r.Executed {
		t.Errorf("ran %t, %+v", ran, r)
	}
	trace := traces.Latest(1)[0]
	if last := trace.Steps[len(trace.Steps)-2]; !last.Again || last.Outcome != governance.Rejected ||
		last.Policy != "authz" {
		t.Errorf("trace: %+v", trace.Steps)
	}

	x := toolCall()
	err = p.Govern(t.Context(), x, answer(`{}`, nil), func(ctx context.Context, x *governance.Exchange) error {
		x.Response = smuggled
		return p.Again(ctx, governance.Response, x)
	})
	if r := refusalOf(t, err); r.Policy != "after" || !r.Executed || x.Response != nil {
		t.Errorf("%+v, %s", r, x.Response)
	}
	want := []string{"rejected authz evil", "rejected after evil"}
	if diff := cmp.Diff(want, audited.seen); diff != "" {
		t.Error(diff)
	}
}

// Audit sees the request before it is sent, and again after a change by a hook and content
// policies, unless the change is denied.
func TestAuditSeesWhatIsSent(t *testing.T) {
	var seen []string
	audit := policyFunc(func(_ context.Context, flow governance.Flow,
		x *governance.Exchange) (governance.Decision, error) {
		seen = append(seen, string(flow)+" "+string(x.Request))
		return governance.Decision{}, nil
	})
	p := newPipeline(t, governance.Options{}, member("authz", governance.Authorization, forbids(governance.Request)),
		member("audit", governance.Audit, audit))
	for _, changed := range []string{
		`{"name":"work","arguments":{"by":"a hook"}}`,
		`{"name":"work","arguments":{"evil":true}}`,
	} {
		seen = nil
		x := toolCall()
		came := string(x.Request)
		err := p.Govern(t.Context(), x, func(ctx context.Context, x *governance.Exchange) error {
			x.Request = json.RawMessage(changed)
			if err := p.Again(ctx, governance.Request, x); err != nil {
				return err
			}
			if last := seen[len(seen)-1]; last != "request "+changed {
				t.Errorf("sent is %s, and audit saw %s", changed, last)
			}
			x.Response = json.RawMessage(`{}`)
			return nil
		})
		want := []string{"request " + came, "request " + changed, "response " + changed}
		if strings.Contains(changed, "evil") {
			want = slices.Delete(want, 1, 2)
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("%v: %s", err, diff)
		}
	}
}

// The response flow covers responses that come from a policy, also to a request that a hook has
// changed.
func TestResponsesOfPoliciesAreGoverned(t *testing.T) {
	evil := json.RawMessage(`{"name":"work","arguments":{"evil":true}}`)
	answers := in(governance.Request, governance.Decision{Action: governance.Respond, JSON: json.RawMessage(`{}`)})
	changes := in(governance.Response, governance.Decision{Action: governance.Modify, JSON: evil})
	p := newPipeline(t, governance.Options{}, member("answers", governance.Content, answers),
		member("changes", governance.Content, changes),
		member("guard", governance.Authorization, forbids(governance.Response)))
	if r := refusalOf(t, p.Govern(t.Context(), toolCall(), answer(`{}`, nil))); r.Policy != "guard" || r.Executed {
		t.Errorf("%+v", r)
	}

	answersEvil := policyFunc(func(ctx context.Context, f governance.Flow,
		x *governance.Exchange) (governance.Decision, error) {
		if string(x.Request) != string(evil) {
			return governance.Decision{}, nil
		}
		return answers(ctx, f, x)
	})
	traces := governance.NewTraces(1)
	p = newPipeline(t, governance.Options{Traces: traces}, member("answers", governance.Content, answersEvil))
	err := p.Govern(t.Context(), toolCall(), func(ctx context.Context, x *governance.Exchange) error {
		x.Request = evil
		err := p.Again(ctx, governance.Request, x)
		if string(x.Response) != `{}` || x.Verdict.Action != governance.Respond {
			t.Errorf("%s, %+v", x.Response, x.Verdict)
		}
		return err
	})
	if trace := traces.Latest(1)[0]; err != nil || trace.Sent {
		t.Errorf("%v, %+v", err, trace)
	}
}

// TestAgainAsksGuardingCategories expects authorization, validation and content only.
func TestAgainAsksGuardingCategories(t *testing.T) {
	var s seen
	var members []governance.Member
	for _, c := range governance.Category("").Values() {
		members = append(members, member(c, governance.Category(c), s.policy(c)))
	}
	p := newPipeline(t, governance.Options{}, members...)
	x := toolCall()
	if err := p.Again(t.Context(), governance.Request, x); err != nil {
		t.Fatal(err)
	}
	if err := p.Again(t.Context(), governance.Response, x); err != nil {
		t.Fatal(err)
	}
	x.Failure = &protocol.Error{Kind: protocol.CallTimeout}
	if err := p.Again(t.Context(), governance.Response, x); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"request authorization",
		"request validation",
		"request content",
		"response authorization",
		"response validation",
		"response content",
	}
	if diff := cmp.Diff(want, s.steps); diff != "" {
		t.Error(diff)
	}
}

// TestStagesRunAfterAllowedResponses runs the stage after an error of the extension, and not after a
// denial.
func TestStagesRunAfterAllowedResponses(t *testing.T) {
	fails := func(context.Context, *governance.Exchange) error { return &protocol.Error{Kind: protocol.ChildExited} }
	stages := 0
	count := func(context.Context, *governance.Exchange) error { stages++; return nil }
	p := newPipeline(t, governance.Options{}, member("p", governance.Authorization, always(governance.Decision{})))
	if err := p.Govern(t.Context(), toolCall(), fails, count); protocol.KindOf(err) != protocol.ChildExited ||
		stages != 1 {
		t.Errorf("%v, %d stages", err, stages)
	}
	denies := newPipeline(t, governance.Options{},
		member("p", governance.Authorization, in(governance.Response, governance.Decision{Action: governance.Deny})))
	err := denies.Govern(t.Context(), toolCall(), answer(`{}`, nil), count)
	if protocol.KindOf(err) != protocol.Rejected || stages != 1 {
		t.Errorf("%v, %d stages", err, stages)
	}
	err = p.Govern(t.Context(), toolCall(), answer(`{}`, nil), fails, count)
	if protocol.KindOf(err) != protocol.ChildExited || stages != 1 {
		t.Errorf("%v, %d stages", err, stages)
	}
}

// A person is asked once, about the request as content policies changed it, and not at all when a
// policy denies it.
func TestAsksComeLast(t *testing.T) {
	changed := json.RawMessage(`{"name":"work","arguments":{"masked":true}}`)
	asked := []string{}
	approver := approverFunc(func(_ context.Context, x *governance.Exchange,
		q governance.ApprovalRequest) (bool, string, error) {
		asked = append(asked, q.Policy+" "+string(x.Request))
		return true, "ada", nil
	})
	ask := member("ask", governance.Authorization, in(governance.Request, governance.Decision{Action: governance.Ask}))
	mask := member("mask", governance.Content,
		in(governance.Request, governance.Decision{Action: governance.Modify, JSON: changed}))
	traces := governance.NewTraces(1)
	p := newPipeline(t, governance.Options{Approver: approver, Traces: traces}, ask, mask)
	x := toolCall()
	if err := p.Govern(t.Context(), x, answer(`{}`, nil)); err != nil || x.Verdict.By != "ada" {
		t.Errorf("%v, %+v", err, x.Verdict)
	}
	if diff := cmp.Diff([]string{"ask " + string(changed)}, asked); diff != "" {
		t.Error(diff)
	}
	asked = nil
	p = newPipeline(t, governance.Options{Approver: approver, Traces: traces}, ask, mask,
		member("no", governance.Validation, forbidMasked))
	if r := refusalOf(t, p.Govern(t.Context(), toolCall(), answer(`{}`, nil))); r.Policy != "no" || len(asked) > 0 {
		t.Errorf("%+v, asked %q", r, asked)
	}
	if steps := traces.Latest(1)[0].Steps; steps[len(steps)-1].Policy != "ask" || !steps[len(steps)-1].Ignored {
		t.Errorf("the approval request that was dropped: %+v", steps)
	}
	answers := member("answers", governance.Content,
		in(governance.Request, governance.Decision{Action: governance.Respond, JSON: json.RawMessage(`{}`)}))
	asked, x = nil, toolCall()
	p = newPipeline(t, governance.Options{Approver: approver}, ask, answers)
	if err := p.Govern(t.Context(), x, answer(`{}`, nil)); err != nil || len(asked) != 1 ||
		x.Verdict.Action != governance.Respond {
		t.Errorf("%v, asked %q, %+v", err, asked, x.Verdict)
	}
}

// forbidMasked denies what a content policy has changed.
var forbidMasked = policyFunc(func(_ context.Context, f governance.Flow,
	x *governance.Exchange) (governance.Decision, error) {
	if f == governance.Request && strings.Contains(string(x.Request), "masked") {
		return governance.Decision{Action: governance.Deny}, nil
	}
	return governance.Decision{}, nil
})
