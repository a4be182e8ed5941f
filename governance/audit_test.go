package governance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

// outcomes records the outcome of each exchange.
type outcomes struct{ seen []string }

func (o *outcomes) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	if flow == governance.Response {
		o.seen = append(o.seen, outcomeOf(x))
	}
	return governance.Decision{}, nil
}

func outcomeOf(x *governance.Exchange) string {
	if x.Failure == nil {
		return strings.TrimSpace("passed " + string(x.Verdict.Action))
	}
	return strings.TrimSpace(string(x.Failure.Kind) + " " + x.Verdict.Policy + " " + x.Verdict.Code)
}

// TestAuditClosesEveryExchange checks that audit runs after success, error, denial and
// panic.
func TestAuditClosesEveryExchange(t *testing.T) {
	deny := governance.Decision{Action: governance.Deny, Code: "no"}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name   string
		policy governance.Policy
		ctx    context.Context
		send   governance.Stage
		want   string
	}{
		{"success", always(governance.Decision{}), t.Context(), answer(`{}`, nil), "passed"},
		{"denied request", in(governance.Request, deny), t.Context(), answer(`{}`, nil), "rejected p no"},
		{"denied response", in(governance.Response, deny), t.Context(), answer(`{}`, nil), "rejected p no"},
		{"no decision", failing, t.Context(), answer(`{}`, nil), "governance_unavailable p governance_unavailable"},
		{"answered", in(governance.Request,
			governance.Decision{Action: governance.Respond, JSON: json.RawMessage(`{}`)}), t.Context(),
			answer(`{}`, nil), "passed respond"},
		{"failed", always(governance.Decision{}), t.Context(),
			func(context.Context, *governance.Exchange) error { return errors.New("oh") }, "extension_error"},
		{"given up", always(governance.Decision{}), ended,
			func(ctx context.Context, _ *governance.Exchange) error { return ctx.Err() }, "canceled"},
		{"panic", always(governance.Decision{}), t.Context(),
			func(context.Context, *governance.Exchange) error { panic("oh") }, "extension_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			one, two := &outcomes{}, &outcomes{}
			traces := governance.NewTraces(1)
			p := newPipeline(t, governance.Options{Traces: traces}, member("p", governance.Validation, tt.policy),
				member("one", governance.Audit, one), member("two", governance.Audit, two))
			func() {
				defer func() {
					if v := recover(); (v != nil) != (tt.name == "panic") {
						t.Errorf("panic: %v", v)
					}
				}()
				_ = p.Govern(tt.ctx, toolCall(), tt.send)
			}()
			if diff := cmp.Diff([][]string{{tt.want}, {tt.want}}, [][]string{one.seen, two.seen}); diff != "" {
				t.Error(diff)
			}
			if len(traces.Latest(5)) != 1 {
				t.Error("there is no trace")
			}
		})
	}
}

// A result that one audit policy could not record is withheld, and the other audit policies see
// that denial.
func TestAuditHasTheLastWord(t *testing.T) {
	for _, tt := range []struct {
		policy governance.Policy
		want   string
	}{
		{in(governance.Response, governance.Decision{Action: governance.Deny, Code: "no"}), "rejected a no"},
		{policyFunc(func(_ context.Context, f governance.Flow, _ *governance.Exchange) (governance.Decision, error) {
			if f == governance.Response {
				return governance.Decision{}, errors.New("disk full")
			}
			return governance.Decision{}, nil
		}), "governance_unavailable a governance_unavailable"},
	} {
		other := &outcomes{}
		p := newPipeline(t, governance.Options{}, member("a", governance.Audit, tt.policy),
			member("b", governance.Audit, other))
		x := toolCall()
		err := p.Govern(t.Context(), x, answer(`{"secret":1}`, nil))
		if r := refusalOf(t, err); !r.Executed || x.Response != nil {
			t.Errorf("%+v, %s", r, x.Response)
		}
		if diff := cmp.Diff([]string{tt.want}, other.seen); diff != "" {
			t.Error(diff)
		}
		// An exchange that has failed keeps its error.
		err = p.Govern(t.Context(), toolCall(),
			func(context.Context, *governance.Exchange) error { return &protocol.Error{Kind: protocol.CallTimeout} })
		if protocol.KindOf(err) != protocol.CallTimeout {
			t.Errorf("err = %v", err)
		}
	}
}

// Audit policies see each request once, also those with flows: [request].
func TestAuditSeesEachRequestOnce(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy governance.Policy
		want   []string
	}{
		{"passes", always(governance.Decision{}), []string{"request a", "request b", "response b"}},
		{"denied before audit", in(governance.Request, governance.Decision{Action: governance.Deny}),
			[]string{"request a", "response b"}},
	} {
		var s seen
		a, b := member("a", governance.Audit, s.policy("a")), member("b", governance.Audit, s.policy("b"))
		a.Spec.Flows = []governance.Flow{governance.Request}
		p := newPipeline(t, governance.Options{}, member("p", governance.Validation, tt.policy), a, b)
		_ = p.Govern(t.Context(), toolCall(), answer(`{}`, nil))
		if diff := cmp.Diff(tt.want, s.steps); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
	// A denial by one audit policy leaves the next unasked until the exchange ends.
	var s seen
	first := member("1", governance.Audit, in(governance.Request, governance.Decision{Action: governance.Deny}))
	second := member("2", governance.Audit, s.policy("2"))
	first.Spec.Flows, second.Spec.Flows = []governance.Flow{governance.Request}, []governance.Flow{governance.Request}
	err := newPipeline(t, governance.Options{}, first, second).Govern(t.Context(), toolCall(), answer(`{}`, nil))
	if diff := cmp.Diff([]string{"request 2"}, s.steps); diff != "" || protocol.KindOf(err) != protocol.Rejected {
		t.Errorf("%v %s", err, diff)
	}
}

// Audit sees masked requests, also when a request is denied before content policies run.
func TestAuditSeesMaskedRequests(t *testing.T) {
	mask := policyFunc(func(_ context.Context, flow governance.Flow,
		x *governance.Exchange) (governance.Decision, error) {
		payload := string(x.Request)
		if flow == governance.Response {
			payload = string(x.Response)
		}
		return governance.Decision{
			Action: governance.Modify,
			JSON:   json.RawMessage(strings.ReplaceAll(payload, `1`, `"masked"`)),
		}, nil
	})
	denies := func(c governance.Category) governance.Member {
		return member("denies", c, in(governance.Request, governance.Decision{Action: governance.Deny}))
	}
	answers := member("a", governance.Content,
		in(governance.Request, governance.Decision{Action: governance.Respond, JSON: json.RawMessage(`{}`)}))
	optional := member("m", governance.Content, failing)
	optional.Spec.Required = new(false)
	masked := `{"name":"work","arguments":{"a":"masked"}}`
	tests := []struct {
		name    string
		members []governance.Member
		want    string
	}{
		{"passed", []governance.Member{member("m", governance.Content, mask)}, masked},
		{"denied before", []governance.Member{denies(governance.Authorization), member("m", governance.Content, mask)},
			masked},
		{"answered before", []governance.Member{answers, member("m", governance.Content, mask)}, masked},
		{"denied before, else answered",
			[]governance.Member{denies(governance.Authorization), answers, member("m", governance.Content, mask)},
			masked},
		{"denied after", []governance.Member{denies(governance.Content), member("a", governance.Content, mask)}, ""},
		{"denied by what should mask it", []governance.Member{denies(governance.Content)}, ""},
		{"masking fails", []governance.Member{
			denies(governance.Authorization),
			member("m", governance.Content, failing),
		}, ""},
		{"optional masking fails", []governance.Member{denies(governance.Authorization), optional},
			`{"name":"work","arguments":{"a":1}}`},
		{"nobody masks", []governance.Member{denies(governance.Authorization)}, `{"name":"work","arguments":{"a":1}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var recorded string
			record := policyFunc(func(_ context.Context, _ governance.Flow,
				x *governance.Exchange) (governance.Decision, error) {
				recorded = string(x.Request)
				if strings.Contains(string(x.Response), "1") {
					t.Errorf("audit saw the response %s", x.Response)
				}
				return governance.Decision{}, nil
			})
			a := member("audit", governance.Audit, record)
			a.Spec.Flows = []governance.Flow{governance.Response}
			p := newPipeline(t, governance.Options{}, append(tt.members, a)...)
			_ = p.Govern(t.Context(), toolCall(), answer(`{"b":1}`, nil))
			if recorded != tt.want {
				t.Errorf("audit saw %s, want %s", recorded, tt.want)
			}
		})
	}
}

// A policy that runs outside of this process gets no request that was denied before it, not even to mask it for the
// record. The record then has no request, since what the policy would have masked is unknown.
func TestDeniedRequestsReachNoProgram(t *testing.T) {
	for _, kind := range []governance.Kind{governance.KindGRPC, governance.KindMCP, governance.KindNative} {
		recorded := "nothing"
		record := policyFunc(func(_ context.Context, _ governance.Flow, x *governance.Exchange,
		) (governance.Decision, error) {
			recorded = string(x.Request)
			return governance.Decision{}, nil
		})
		program := member("program", governance.Content, policyFunc(func(context.Context, governance.Flow,
			*governance.Exchange) (governance.Decision, error) {
			t.Errorf("kind %s was asked", kind)
			return governance.Decision{}, nil
		}))
		program.Spec.Kind = kind
		denies := member("denies", governance.Authorization,
			in(governance.Request, governance.Decision{Action: governance.Deny}))
		p := newPipeline(t, governance.Options{}, denies, program, member("audit", governance.Audit, record))
		if err := p.Govern(t.Context(), toolCall(), answer(`{}`, nil)); protocol.KindOf(err) != protocol.Rejected {
			t.Error(err)
		}
		if recorded != "" {
			t.Errorf("kind %s: the record has the request %s", kind, recorded)
		}
	}
}

// Audit policies do not see a result that is withheld from the caller.
func TestAuditDoesNotSeeWithheldResults(t *testing.T) {
	var saw []string
	record := policyFunc(func(_ context.Context, flow governance.Flow,
		x *governance.Exchange) (governance.Decision, error) {
		saw = append(saw, string(x.Response))
		return governance.Decision{}, nil
	})
	p := newPipeline(t, governance.Options{},
		member("no", governance.Validation, in(governance.Response, governance.Decision{Action: governance.Deny})),
		member("audit", governance.Audit, record))
	x := toolCall()
	err := p.Govern(t.Context(), x, answer(`{"secret":1}`, nil))
	if r := refusalOf(t, err); !r.Executed || strings.Contains(err.Error(), "secret") ||
		strings.Join(saw, "")+string(x.Response) != "" {
		t.Errorf("%+v, audit saw %q, the caller has %s", r, saw, x.Response)
	}
}

// An optional audit policy cannot change payloads, so a malformed change by it does not end the
// exchange.
func TestMalformedAuditDecisionEndsNothing(t *testing.T) {
	odd := policyFunc(func(context.Context, governance.Flow, *governance.Exchange) (governance.Decision, error) {
		return governance.Decision{}, fmt.Errorf("%w: junk", governance.ErrDecided)
	})
	m := member("audit", governance.Audit, odd)
	m.Spec.Required = new(false)
	p := newPipeline(t, governance.Options{}, m)
	sent := false
	err := p.Govern(t.Context(), toolCall(), func(_ context.Context, x *governance.Exchange) error {
		sent = true
		return answer(`{}`, nil)(t.Context(), x)
	})
	if err != nil || !sent {
		t.Errorf("sent %t, %v", sent, err)
	}
}
