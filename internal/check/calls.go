package check

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

func probeCalls(ctx context.Context, s *subject) error {
	if len(s.fixture.Calls) == 0 {
		return skipf(`there is no %s: {"calls": [{"tool": "…", "arguments": {…}, "text": "…"}]} says what may be called, and what comes of it`, fixtureName)
	}
	var failures []string
	made := 0
	for _, c := range s.fixture.Calls {
		if c.Cancel {
			continue // probeCancel makes it
		}
		made++
		result, err := s.call(ctx, c)
		if err := c.judge(result, err); err != nil {
			failures = append(failures, err.Error())
		}
	}
	if err := complaints(Fail, failures); err != nil {
		return err
	}
	return passf("%d made", made)
}

func probeUnicode(ctx context.Context, s *subject) error {
	return s.echoes(ctx, "string", `"exthost check"`, "exthost check",
		map[string]string{`"é ☃ 😀 \u202e\u001b[0m end"`: "é ☃ 😀 \u202e\u001b[0m end", `"two\nlines \\ \" / \u2028"`: "two\nlines \\ \" / \u2028"})
}

func probeBigIntegers(ctx context.Context, s *subject) error {
	const big, negative = "12345678901234567890", "-9007199254740993"
	return s.echoes(ctx, "integer", "123456789", "123456789", map[string]string{big: big, negative: negative})
}

// echoes looks for a tool that gives back a plain value of a property of that
// type, and wants the others back from it as well: values by what their JSON says.
func (s *subject) echoes(ctx context.Context, typ, plain, saysPlain string, others map[string]string) error {
	w, err := s.converse(ctx)
	if err != nil {
		return err
	}
	for _, e := range s.entries() {
		name := freeProperty(e.InputSchema, typ)
		if name == "" || !s.mayCall(e) {
			continue
		}
		text, failed, err := w.call(ctx, s.callWith(e, name, plain))
		if err != nil {
			return err
		}
		if failed || !strings.Contains(text, saysPlain) {
			continue
		}
		for value, says := range others {
			c := s.callWith(e, name, value)
			text, failed, err := w.call(ctx, c)
			switch {
			case err != nil:
				return err
			case failed: // it is said, and nothing is silently another
				return hintf("%s fails: %s; with %s it does not", c, cut(text), plain)
			case !strings.Contains(text, says) && !strings.Contains(text, value):
				return fmt.Errorf("%s gives %q; of %s, %s comes back", c, cut(text), plain, saysPlain)
			}
		}
		return passf("by %s", e.Tool)
	}
	return skipf("no tool that may be called gives back what it is told")
}

// callWith is a call of a tool that has that value among what it requires.
func (s *subject) callWith(e *tools.Entry, name, value string) *fixtureCall {
	arguments, ok := exampleOf(e.InputSchema)
	for _, c := range s.fixture.Calls {
		if c.Tool == e.Tool && !c.Error && !c.Cancel {
			arguments, ok = c.Arguments, true
			break
		}
	}
	if !ok {
		arguments = json.RawMessage("{}")
	}
	return &fixtureCall{Tool: e.Tool, Arguments: rawjson.Set(arguments, name, json.RawMessage(value))}
}

func probeProgress(ctx context.Context, s *subject) error {
	c, err := s.sample()
	if err != nil {
		return noSample()
	}
	w, err := s.converse(ctx)
	if err != nil {
		return err
	}
	before := w.count(protocol.MethodProgress)
	if _, _, err := w.call(ctx, c); err != nil {
		return err
	}
	if w.count(protocol.MethodProgress) > before {
		return fmt.Errorf("%s tells progress to a caller who gave no progressToken", c)
	}
	const token = `"exthost-check-progress"`
	id := w.newID()
	answer := w.expect(id)
	if err := w.write(w.callLine(id, c, `{"progressToken":`+token+`}`)); err != nil {
		return err
	}
	if _, err := w.await(ctx, answer, c.String()); err != nil {
		return err
	}
	told := w.progress(token)
	if len(told) == 0 {
		return passf("%s tells none", c)
	}
	return rising(told)
}

// rising wants progress that rises.
func rising(told []jsonrpc.Message) error {
	last := math.Inf(-1)
	for _, m := range told {
		var progress float64
		if err := json.Unmarshal(rawjson.Get(m.Params, "progress"), &progress); err != nil {
			return fmt.Errorf("%s: its progress is no number", cut(string(m.Raw)))
		}
		if progress <= last {
			return fmt.Errorf("progress %v follows %v: it has to rise", progress, last)
		}
		last = progress
	}
	return nil
}

func probeCancel(ctx context.Context, s *subject) error {
	tried := 0
	for _, c := range s.fixture.Calls {
		if !c.Cancel {
			continue
		}
		w, err := s.converse(ctx)
		if err != nil {
			return err
		}
		if err := w.cancel(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		tried++
	}
	if tried == 0 {
		return skipf(`no call of %s takes long: {"tool": "…", "arguments": {…}, "cancel": true} names one`, fixtureName)
	}
	return nil
}

// cancelWait is how long the answer to a cancelled call may take.
const cancelWait = 3 * time.Second

// cancel makes a call, sees that others are answered meanwhile, cancels it and
// waits for what the host waits for: an answer, which an MCP server need not give.
func (w *wire) cancel(ctx context.Context, c *fixtureCall) error {
	id := w.newID()
	answer := w.expect(id)
	token := quoted("exthost-check-" + id)
	if err := w.write(w.callLine(id, c, `{"progressToken":`+token+`}`)); err != nil {
		return err
	}
	if err := w.answers(ctx); err != nil {
		return fmt.Errorf("meanwhile %w", err)
	}
	select {
	case m := <-answer:
		text, _ := said(m)
		return fmt.Errorf("it was answered before it could be cancelled: %s; it should take minutes", cut(text))
	default:
	}
	if err := w.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"requestId":%s,"reason":"check"}}`, protocol.MethodCancelled, id)); err != nil {
		return err
	}
	timer := time.NewTimer(cancelWait)
	defer timer.Stop()
	select {
	case <-answer:
		return rising(w.progress(token))
	case <-w.ended:
		return fmt.Errorf("when it was cancelled, %w", w.gone(nil))
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	if w.subject.speaks == manifest.ProtocolMCP {
		return w.answers(ctx)
	}
	return fmt.Errorf("%v after it was cancelled it is not answered: it goes on, and when max_in_flight calls do, the child is killed", cancelWait)
}
