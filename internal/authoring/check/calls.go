package check

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/authoring/rawclient"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

func (s *subject) probeCalls(ctx context.Context) error {
	if len(s.fixture.Calls) == 0 {
		return skipf(`there is no %s: {"calls": [{"tool": "…", "arguments": {…}, "text": "…"}]} `+
			"says what may be called, and what comes of it", fixtureName)
	}
	var failures []string
	made := 0
	for _, c := range s.fixture.Calls {
		if c.Cancel {
			continue // probeCancel makes that call
		}
		made++
		result, err := s.call(ctx, c)
		if err := c.judge(result, err); err != nil {
			failures = append(failures, err.Error())
		}
	}
	if err := issues(Fail, failures); err != nil {
		return err
	}
	s.answered = time.Now()
	return passf("%d made", made)
}

func (s *subject) probeUnicode(ctx context.Context) error {
	return s.checkEcho(ctx, "string", `"exthost check"`, "exthost check",
		map[string]string{
			`"é ☃ 😀 \u202e\u001b[0m end"`: "é ☃ 😀 \u202e\u001b[0m end",
			`"two\nlines \\ \" / \u2028"`: "two\nlines \\ \" / \u2028",
		})
}

func (s *subject) probeBigIntegers(ctx context.Context) error {
	const big, negative = "12345678901234567890", "-9007199254740993"
	return s.checkEcho(ctx, "integer", "123456789", "123456789", map[string]string{big: big, negative: negative})
}

// checkEcho looks for a tool that returns the value of a property of type typ, first with the JSON value plain, whose
// text is plainText. It then expects the tool to return each text in texts for the JSON value that is its key.
func (s *subject) checkEcho(ctx context.Context, typ, plain, plainText string, texts map[string]string) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	for _, e := range s.entries() {
		name := freeProperty(e.InputSchema, typ)
		if name == "" || !s.mayCall(e) {
			continue
		}
		text, failed, err := callRaw(ctx, c, s.callWith(e, name, plain))
		if err != nil {
			return err
		}
		if failed || !strings.Contains(text, plainText) {
			continue
		}
		for value, want := range texts {
			call := s.callWith(e, name, value)
			text, failed, err := callRaw(ctx, c, call)
			switch {
			case err != nil:
				return err
			case failed: // an explicit error, so no value is changed silently
				return hintf("%s fails: %s; with %s it does not", call, cut(text), plain)
			case !strings.Contains(text, want) && !strings.Contains(text, value):
				return fmt.Errorf("%s gives %q; of %s, %s comes back", call, cut(text), plain, plainText)
			}
		}
		return passf("by %s", e.Tool)
	}
	return skipf("no tool that may be called gives back what it is told")
}

// callWith returns a call of a tool with the required arguments, and with value, in JSON, for the argument called name.
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

func (s *subject) probeProgress(ctx context.Context) error {
	call, err := s.sample()
	if err != nil {
		return skipf(`nothing may be called: name a harmless call in %s, `+
			`{"calls": [{"tool": "…", "arguments": {…}}]}, or annotate a tool with readOnlyHint `+
			"and give its parameters examples", fixtureName)
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	before := c.Count(protocol.MethodProgress)
	if _, _, err := callRaw(ctx, c, call); err != nil {
		return err
	}
	if c.Count(protocol.MethodProgress) > before {
		return fmt.Errorf("%s tells progress to a caller who gave no progressToken", call)
	}
	const token = `"exthost-check-progress"`
	id := c.NewID()
	answer := c.Expect(id)
	if err := c.Write(c.CallRequest(id, call.Tool, call.Arguments, `{"progressToken":`+token+`}`)); err != nil {
		return err
	}
	if _, err := c.Await(ctx, answer, call.String()); err != nil {
		return err
	}
	told := c.Progress(token)
	if len(told) == 0 {
		return passf("%s tells none", call)
	}
	return checkRising(told)
}

// checkRising returns an error if progress does not rise.
func checkRising(told []jsonrpc.Message) error {
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

func (s *subject) probeCancel(ctx context.Context) error {
	tried := 0
	for _, call := range s.fixture.Calls {
		if !call.Cancel {
			continue
		}
		c, err := s.client(ctx)
		if err != nil {
			return err
		}
		if err := s.cancel(ctx, c, call); err != nil {
			return fmt.Errorf("%s: %w", call, err)
		}
		tried++
	}
	if tried == 0 {
		return skipf(`no call of %s takes long: {"tool": "…", "arguments": {…}, "cancel": true} names one`, fixtureName)
	}
	return nil
}

// cancelWait is how long to wait for the response to a cancelled call.
const cancelWait = 3 * time.Second

// cancel makes a call, checks that another request is answered meanwhile, cancels the call and waits for its response.
// An MCP server need not respond.
func (s *subject) cancel(ctx context.Context, c *rawclient.Client, call *fixtureCall) error {
	id := c.NewID()
	answer := c.Expect(id)
	token := string(rawjson.AppendText(nil, "exthost-check-"+id))
	if err := c.Write(c.CallRequest(id, call.Tool, call.Arguments, `{"progressToken":`+token+`}`)); err != nil {
		return err
	}
	if err := responds(ctx, c); err != nil {
		return fmt.Errorf("meanwhile %w", err)
	}
	select {
	case m := <-answer:
		text, _ := textOf(m)
		return fmt.Errorf("it was answered before it could be cancelled: %s; it should take minutes", cut(text))
	default:
	}
	cancelled := fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"requestId":%s,"reason":"check"}}`,
		protocol.MethodCancelled, id)
	if err := c.Write(cancelled); err != nil {
		return err
	}
	timer := time.NewTimer(cancelWait)
	defer timer.Stop()
	select {
	case <-answer:
		return checkRising(c.Progress(token))
	case <-c.Ended():
		return fmt.Errorf("when it was cancelled, %w", c.ExitError(nil))
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	if s.protocol == manifest.ProtocolMCP {
		return responds(ctx, c)
	}
	return fmt.Errorf("%v after it was cancelled it is not answered: it goes on, and when max_in_flight calls do, "+
		"the child is killed", cancelWait)
}
