package interceptorpolicy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// answer is what an interceptor says about a payload.
type answer struct {
	err     error
	blocks  bool            // a validator: the exchange must not go on
	code    string          // of a denial, for programs
	reason  string          // what a validator found, with its name; "" is nothing
	payload json.RawMessage // of a mutator: the changed payload, nil when unchanged
}

// codeInvalidParams is JSON-RPC's code for params that the server does not take.
const codeInvalidParams = -32602

// ask asks an interceptor about the payload, and waits for its answer. It may be called by many
// goroutines at once.
func (r *run) ask(i *interceptor) answer {
	ctx, remaining, cancel := r.limit(i)
	defer cancel()
	return r.p.invoke(ctx, i, r.flow, r.params(i, remaining))
}

// invoke makes one invocation with its params.
func (p *Policy) invoke(ctx context.Context, i *interceptor, flow governance.Flow, params json.RawMessage) (a answer) {
	raw, err := p.caller.Call(ctx, methodInvoke, params)
	if err != nil {
		if e, ok := errors.AsType[*protocol.Error](err); ok && e.Kind == protocol.ExtensionError &&
			e.Code == codeInvalidParams {
			p.changes.Add(1) // the list may have changed without a word
		}
		return answer{err: err}
	}
	if a = i.read(flow, raw); a.err == nil && i.failing.CompareAndSwap(true, false) {
		p.o.Log.Info("an interceptor works again", "interceptor", i.name)
	}
	return a
}

// limit bounds the time for an interceptor. One whose failure is passed over gets half of
// what is left, so that the decision does not end with it.
func (r *run) limit(i *interceptor) (ctx context.Context, remaining time.Duration, cancel context.CancelFunc) {
	deadline, ok := r.ctx.Deadline()
	if !ok {
		return r.ctx, 0, func() {}
	}
	remaining = time.Until(deadline)
	if i.failOpen {
		remaining /= 2
	}
	ctx, cancel = context.WithTimeout(r.ctx, remaining)
	return ctx, remaining, cancel
}

// params returns the params of an invocation. The payload is the exchange's own text.
func (r *run) params(i *interceptor, remaining time.Duration) json.RawMessage {
	b := append(make([]byte, 0, len(r.payload)+len(r.context)+len(i.config)+512), `{"name":`...)
	b = append(rawjson.AppendText(b, i.name), `,"event":`...)
	b = append(rawjson.AppendText(b, r.x.Method), `,"phase":`...)
	b = append(rawjson.AppendText(b, string(r.flow)), `,"payload":`...)
	b = append(b, r.payload...)
	if i.config != nil {
		b = append(append(b, `,"config":`...), i.config...)
	}
	if remaining > 0 {
		b = strconv.AppendInt(append(b, `,"timeoutMs":`...), max(remaining.Milliseconds(), 1), 10)
	}
	b = append(append(b, `,"context":`...), r.context...)
	b = append(rawjson.AppendText(append(b, `,"_meta":{"exthost/extension":`...), r.x.Extension), `,"exthost/tool":`...)
	b = rawjson.AppendText(b, r.x.Tool)
	if r.x.Node != "" {
		b = rawjson.AppendText(append(b, `,"exthost/node":`...), r.x.Node)
	}
	return append(b, `}}`...)
}

// read reads the answer of an interceptor. What cannot be read is an error, and one of a
// policy that has decided unless it plainly allows or says nothing.
func (i *interceptor) read(flow governance.Flow, raw json.RawMessage) answer {
	kind, states, harmless := "validation", "valid", "true"
	if i.mutates {
		kind, states, harmless = "mutation", "modified", "false"
	}
	m, err := members(raw)
	if m == nil {
		return answer{err: protocol.Errorf(protocol.InvalidResponse, "its answer cannot be read: %w", err)}
	}
	said := string(m[states])
	decides := err != nil || said != "" && said != harmless
	if err == nil {
		err = i.meant(m, kind, flow)
	}
	if err == nil && said != "true" && said != "false" {
		err = fmt.Errorf("its %s is %s, neither true nor false", states, orAbsent(m[states]))
	}
	if err == nil && i.mutates && said == "true" && absent(m["payload"]) {
		err = errors.New("it has modified the payload, which it does not return")
	}
	switch {
	case err != nil && decides:
		return answer{err: undoable("its answer cannot be read: %w", err)}
	case err != nil:
		return answer{err: protocol.Errorf(protocol.InvalidResponse, "its answer cannot be read: %w", err)}
	case !i.mutates:
		return i.verdict(said == "true", m)
	case said == "false":
		return answer{}
	}
	return answer{payload: bytes.Clone(m["payload"])}
}

// meant checks that the answer is about this invocation, as far as it says.
func (i *interceptor) meant(m map[string]json.RawMessage, kind string, flow governance.Flow) error {
	for _, echo := range []struct{ member, want string }{
		{"interceptor", i.name},
		{"type", kind},
		{"phase", string(flow)},
	} {
		if is, _ := rawjson.Text(m[echo.member]); !absent(m[echo.member]) && is != echo.want {
			return fmt.Errorf("its %s is %s, not %s", echo.member, orAbsent(m[echo.member]), echo.want)
		}
	}
	return nil
}

// verdict reads what a validator found. What is not valid is refused unless its severity is
// stated, and is warn or info. The messages explain, and decide nothing.
func (i *interceptor) verdict(valid bool, m map[string]json.RawMessage) answer {
	severity, _ := rawjson.Text(m["severity"])
	a := answer{blocks: !valid && severity != "warn" && severity != "info"}
	a.code, _ = rawjson.Text(rawjson.Get(m["info"], "code"))
	var messages []json.RawMessage
	_ = json.Unmarshal(m["messages"], &messages) // no list: no messages
	var found []string
	for _, raw := range messages {
		text, _ := rawjson.Text(rawjson.Get(raw, "message"))
		if path, _ := rawjson.Text(rawjson.Get(raw, "path")); path != "" && text != "" {
			text += " (" + path + ")"
		}
		if text != "" {
			found = append(found, text)
		}
	}
	switch {
	case len(found) > 0:
		a.reason = i.name + ": " + display.CutWords(strings.Join(found, ", "), maxReason)
	case a.blocks:
		a.reason = i.name + " refuses it"
	case !valid:
		a.reason = i.name + " finds it not valid (" + severity + ")"
	}
	return a
}

// undoable is the error of an interceptor that has decided what cannot be carried out.
func undoable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", governance.ErrDecided, protocol.Errorf(protocol.InvalidResponse, format, args...))
}
