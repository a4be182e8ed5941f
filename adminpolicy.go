package exthost

import (
	"context"
	"errors"
	"slices"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/internal/redact"
	"github.com/exthost/exthost/protocol"
)

// Trace is how an exchange fared: who decided what about it, and how long that
// took. It holds no payload.
type Trace = governance.Trace

// Traces returns how the last n exchanges that ended fared, the newest first. The
// last 1024 are kept, and none while there are no policies.
func (a Admin) Traces(n int) []Trace {
	list := a.h.oversight.traces.Latest(n)
	for _, t := range list {
		maskReasons(t)
	}
	return list
}

// maskReasons masks what policies have said in words, who may repeat what was asked.
func maskReasons(t Trace) {
	for i := range t.Steps {
		t.Steps[i].Reason, _ = redact.Default().Text(t.Steps[i].Reason)
	}
}

// Trace explains one decision by its id. One that is not kept, or not any more, is a
// tool_not_found error.
func (a Admin) Trace(id string) (Trace, error) {
	t, ok := a.h.oversight.traces.Get(id)
	if !ok {
		return t, protocol.Errorf(protocol.ToolNotFound, "there is no decision %q among the last that are kept", id)
	}
	maskReasons(t)
	return t, nil
}

// TestCall takes the request flow of c through the policies, sends nothing, and
// returns how it went and the error that sending would have met. Nobody is asked and
// audit does not run; policies that count do count it.
func (a Admin) TestCall(ctx context.Context, c *protocol.Call) (Trace, error) {
	var t *toolCall
	if c.Method == protocol.MethodToolsCall {
		var err error
		if t, err = readToolCall(c.Params); err != nil {
			return Trace{}, err
		}
	}
	r, err := a.h.route(ctx, c, t)
	if err != nil {
		return Trace{}, err
	}
	defer r.gen.leave()
	trace, err := r.gen.policy.Test(ctx, &r.exchange)
	if err != nil {
		err = r.blame(err)
	}
	return trace, err
}

// Question is what a policy or a hook asks a person: may this call be made, once?
type Question = approval.Question

// Questions returns those that wait for an answer, the oldest first.
func (a Admin) Questions() []Question { return a.h.oversight.desk.List() }

// QuestionsChanged returns a channel that is closed when [Admin.Questions] changes,
// other than by expiry.
func (a Admin) QuestionsChanged() <-chan struct{} { return a.h.oversight.desk.Changed() }

// Approve lets the call of a question be made, once: now if its caller waits, else
// when the same caller makes the same call again in time. by names who says so. A
// question that nobody asks any more is a tool_not_found error.
func (a Admin) Approve(id, by string) error {
	return a.answered(id, by, "approved", a.h.oversight.desk.Approve(id, by))
}

// Deny ends the call of a question. reason may be "".
func (a Admin) Deny(id, by, reason string) error {
	return a.answered(id, by, "denied", a.h.oversight.desk.Deny(id, by, reason))
}

func (a Admin) answered(id, by, answer string, err error) error {
	switch {
	case errors.Is(err, approval.ErrUnknown):
		return protocol.Errorf(protocol.ToolNotFound, "%w", err)
	case err == nil:
		a.h.log.Info("a question was answered", "question", id, "answer", answer, "by", by)
	}
	return err
}

// Pins returns the tools that policies have pinned, by policy, extension and tool.
func (a Admin) Pins() (list []Pin) {
	for _, p := range a.h.gen.Load().pinning() {
		for _, pin := range p.Pins().List() {
			list = append(list, Pin{p.name, pin})
		}
	}
	return list
}

// ApprovePin pins what a tool of an extension says now, or with tool "" what all of
// its tools say that are held back, and puts them into the catalog. tool is the
// extension's own name for it. by names who says so. That there is nothing to
// approve is a tool_not_found error.
func (a Admin) ApprovePin(extension, tool, by string) error {
	approved := 0
	for _, p := range a.h.gen.Load().pinning() {
		for _, pin := range p.Pins().List() {
			if !pin.Held || pin.Extension != extension || tool != "" && pin.Tool != tool {
				continue
			}
			if err := p.Pins().Approve(extension, pin.Tool, by); err != nil {
				return err
			}
			approved++
			a.h.log.Info("a changed tool was approved", "extension", extension, "tool", pin.Tool, "by", by)
		}
	}
	if approved == 0 {
		return a.nothingHeld(extension, tool)
	}
	a.h.rebuild()
	return nil
}

// nothingHeld says what is wrong with an approval of nothing.
func (a Admin) nothingHeld(extension, tool string) error {
	pins := a.Pins()
	switch {
	case len(a.h.gen.Load().pinning()) == 0:
		return protocol.Errorf(protocol.ToolNotFound, "no policy pins tools: state one with builtin: pin")
	case !slices.ContainsFunc(pins, func(p Pin) bool { return p.Extension == extension }):
		return protocol.Errorf(protocol.ToolNotFound, "no tool of an extension %q is pinned", extension)
	case tool == "":
		return protocol.Errorf(protocol.ToolNotFound, "no tool of %s has changed: there is nothing to approve", extension)
	case !slices.ContainsFunc(pins, func(p Pin) bool { return p.Extension == extension && p.Tool == tool }):
		return protocol.Errorf(protocol.ToolNotFound, "no tool %q of %s is pinned; name it as the extension does", tool, extension)
	}
	return protocol.Errorf(protocol.ToolNotFound, "the tool %s of %s has not changed: there is nothing to approve", tool, extension)
}
