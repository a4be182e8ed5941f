package interceptorpolicy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/failures"
	"github.com/exthost/exthost/governance/internal/strictjson"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// maxReason is how long the reason of a decision may be, in bytes.
const maxReason = 2000

// Decide implements [governance.Policy]. Notifications and the requests that open or probe
// a connection are no events of the proposal: they are allowed. Its errors are those of the
// Caller, and InvalidResponse.
func (p *Policy) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	if x.Notify || slices.Contains([]string{protocol.MethodInitialize, protocol.MethodDiscover, protocol.MethodPing},
		x.Method) {
		return governance.Decision{}, nil
	}
	list, err := p.interceptors(ctx)
	if err != nil {
		return governance.Decision{}, err
	}
	r := &run{p: p, ctx: ctx, flow: flow, x: x}
	for _, i := range list {
		switch {
		case !i.hooked(x.Method, flow):
		case i.mutates && !i.audit:
			r.mutators = append(r.mutators, i)
		default:
			r.beside = append(r.beside, i)
		}
	}
	if len(r.mutators)+len(r.beside) == 0 {
		return governance.Decision{}, nil
	}
	r.payload, r.context = p.payload(flow, x), contextOf(x)
	if err := r.plain(); err != nil {
		return governance.Decision{}, err
	}
	passes := []func() error{r.mutate, r.validate}
	if sends := (flow == governance.Request) == x.ToChild; !sends {
		slices.Reverse(passes)
	}
	for _, pass := range passes {
		if err := pass(); err != nil {
			return governance.Decision{}, err
		}
		if r.denied != nil {
			break
		}
	}
	return r.decision(), nil
}

// run is one decision in the making.
type run struct {
	p        *Policy
	ctx      context.Context
	flow     governance.Flow
	x        *governance.Exchange
	mutators []*interceptor // in mode enforce
	beside   []*interceptor // validators, and all in mode audit
	context  json.RawMessage
	payload  json.RawMessage
	changed  bool
	denied   *governance.Decision
	shadow   *governance.Decision // of the first in mode audit that would do something
	notes    []string             // for the trace
}

// plain reports a response with a member that stands twice: the caller may read another one
// than the interceptors. The pipeline sees to requests.
func (r *run) plain() error {
	audits := len(r.mutators) == 0 && !slices.ContainsFunc(r.beside, func(i *interceptor) bool { return !i.audit })
	if r.flow == governance.Request || audits {
		return nil
	}
	_, err := strictjson.Result(r.payload)
	return err
}

// mutate asks the mutators one after the other.
func (r *run) mutate() error {
	slices.SortFunc(r.mutators, func(a, b *interceptor) int {
		return cmp.Or(cmp.Compare(a.priority[r.flow], b.priority[r.flow]), strings.Compare(a.name, b.name))
	})
	for _, i := range r.mutators {
		a := r.ask(i)
		if a.err == nil && a.payload != nil {
			a.err = r.usable(a.payload)
		}
		if a.err != nil {
			if err := r.failed(i, a.err); err != nil {
				return err
			}
			continue
		}
		if a.payload != nil {
			r.payload, r.changed = a.payload, true
		}
	}
	return nil
}

// usable checks that a mutator has left the payload one of its event.
func (r *run) usable(payload json.RawMessage) (err error) {
	if _, err = rawjson.Object(payload); err == nil && r.flow == governance.Response {
		_, err = strictjson.Result(payload) // of requests the pipeline sees to that
	}
	if err == nil && r.enveloped() {
		method, _ := rawjson.Text(rawjson.Get(payload, "method"))
		switch {
		case method != r.x.Method:
			err = fmt.Errorf("its method is %q, not %s", method, r.x.Method)
		case !rawjson.IsObject(rawjson.Get(payload, "params")):
			err = errors.New("its params are not an object")
		}
	}
	if err != nil {
		return undoable("the payload that it returns cannot be used: %w", err)
	}
	return nil
}

// askAll asks all others at once: it waits for the validators, and for those in mode audit no longer
// than patience.
func (r *run) askAll() []answer {
	answers, watched := make([]answer, len(r.beside)), make([]*asked, len(r.beside))
	var all sync.WaitGroup
	impatient, cancel := context.WithTimeout(r.ctx, r.patience())
	defer cancel()
	for n, i := range r.beside {
		if i.audit {
			watched[n] = r.watch(i)
		} else {
			all.Go(func() { answers[n] = r.ask(i) })
		}
	}
	all.Wait()
	for n, a := range watched {
		if a != nil {
			answers[n] = r.taken(r.beside[n], a, impatient.Done())
		}
	}
	return answers
}

// validate asks all others and draws up what they say.
func (r *run) validate() (err error) {
	answers := r.askAll()
	var reasons []string
	code := ""
	for n, i := range r.beside {
		a := &answers[n]
		switch {
		case a.err != nil:
			err = cmp.Or(err, r.failed(i, a.err))
		case a.blocks && !i.audit:
			reasons, code = append(reasons, a.reason), cmp.Or(code, a.code)
		case a.blocks:
			r.would(governance.Decision{Action: governance.Deny, Code: a.code, Reason: a.reason, Shadow: true})
		case a.payload != nil:
			r.would(governance.Decision{
				Action: governance.Modify,
				Reason: i.name + " changes it",
				JSON:   r.unwrapped(a.payload),
				Shadow: true,
			})
		case a.reason != "":
			r.notes = append(r.notes, a.reason)
		}
	}
	if len(reasons) > 0 {
		r.denied, err = &governance.Decision{
			Action: governance.Deny,
			Code:   code,
			Reason: display.CutWords(strings.Join(reasons, "; "), maxReason),
		}, nil
	}
	return err
}

// would notes what an interceptor in mode audit would do.
func (r *run) would(d governance.Decision) {
	if r.shadow == nil {
		r.shadow = &d
		return
	}
	r.notes = append(r.notes, "audit: "+d.Reason)
}

// failed returns the error of an interceptor if it ends the decision, and else notes it.
// What was decided and cannot be carried out ends it unless it had no effect anyway, and
// so does the end of the time for all.
func (r *run) failed(i *interceptor, err error) error {
	err = fmt.Errorf("interceptor %s: %w", i.name, err)
	if r.ctx.Err() != nil || !i.audit && (!i.failOpen || errors.Is(err, governance.ErrDecided)) {
		return err
	}
	r.notes = append(r.notes, err.Error())
	r.p.passedOver(i, err)
	return nil
}

// passedOver logs that an interceptor fails, once until it works again.
func (p *Policy) passedOver(i *interceptor, err error) {
	if i.failing.CompareAndSwap(false, true) {
		p.o.Log.Warn("an interceptor fails, and exchanges go on without it", "interceptor", i.name, "audit", i.audit,
			"fail_open", i.failOpen, "error", err)
	}
}

// decision returns what all of them have decided.
func (r *run) decision() governance.Decision {
	var d governance.Decision
	switch {
	case r.denied != nil:
		return *r.denied
	case r.changed:
		d = governance.Decision{Action: governance.Modify, JSON: r.unwrapped(r.payload)}
		if r.shadow != nil {
			r.notes = append(r.notes, "audit: "+r.shadow.Reason)
		}
	case r.shadow != nil:
		d = *r.shadow
		r.notes = slices.Insert(r.notes, 0, d.Reason)
	}
	d.Reason = display.CutWords(strings.Join(r.notes, "; "), maxReason)
	return d
}

// enveloped reports whether the payload is a request as {method, params}.
func (r *run) enveloped() bool { return r.p.spec.Envelope && r.flow == governance.Request }

// payload returns what interceptors get of an exchange, raw: the params of a request, or the
// result. An error has none: of a tool it is given as a result with isError, and else as
// {code, message, data}.
func (p *Policy) payload(flow governance.Flow, x *governance.Exchange) json.RawMessage {
	if flow == governance.Response {
		outcome := failures.Outcome(x)
		if x.Failure != nil && x.ReturnsTool() {
			outcome = failures.Result(outcome)
		}
		return orEmpty(outcome)
	}
	if p.spec.Envelope {
		b := append(append([]byte(`{"method":`), rawjson.Quote(x.Method)...), `,"params":`...)
		return append(append(b, orEmpty(x.Request)...), '}')
	}
	return orEmpty(x.Request)
}

// unwrapped returns the part of the exchange that payload stands for.
func (r *run) unwrapped(payload json.RawMessage) json.RawMessage {
	switch {
	case r.enveloped():
		return rawjson.Get(payload, "params")
	case r.flow == governance.Response && r.x.Failure != nil && r.x.ReturnsTool():
		return failures.Edit(failures.Outcome(r.x), payload)
	}
	return payload
}

func orEmpty(value json.RawMessage) json.RawMessage {
	if absent(value) {
		return json.RawMessage("{}")
	}
	return value
}

// contextOf returns the context of all invocations about an exchange.
func contextOf(x *governance.Exchange) json.RawMessage {
	type principal struct {
		Type string `json:"type"`
		ID   string `json:"id,omitempty"`
	}
	caller := principal{"user", x.Caller}
	if x.Caller == "" {
		caller.Type = "anonymous"
	}
	began := x.Began
	if began.IsZero() {
		began = time.Now()
	}
	raw, _ := json.Marshal(struct { // strings always encode
		Principal principal `json:"principal"`
		TraceID   string    `json:"traceId,omitempty"`
		Timestamp string    `json:"timestamp"`
		SessionID string    `json:"sessionId,omitempty"`
	}{caller, x.ID, began.UTC().Format(time.RFC3339Nano), x.Session})
	return raw
}
