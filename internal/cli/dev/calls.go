package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/toolcall"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// call calls the tool named by the first word; false if there is none. On a terminal it does not wait for the result,
// so that the author can cancel the call.
func (p *prompt) call(ctx context.Context, words []string) bool {
	e := p.lookup(words[0])
	if e == nil {
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	p.calls[ctx] = cancel
	p.mu.Unlock()
	call := func() {
		defer cancel()
		p.finish(ctx, e, words[1:])
		p.mu.Lock()
		delete(p.calls, ctx)
		p.mu.Unlock()
	}
	if p.terminal != nil {
		p.tasks.Go(call)
	} else {
		call()
	}
	return true
}

// cancelCalls cancels the calls in flight and reports whether there were any.
func (p *prompt) cancelCalls() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.calls {
		cancel()
	}
	return len(p.calls) > 0
}

func (p *prompt) finish(ctx context.Context, e *tools.Entry, pairs []string) {
	arguments, err := toolcall.Arguments(json.RawMessage("{}"), pairs, e.Name, e.InputSchema)
	if err != nil {
		p.fail("%s", console.Safe(err.Error()))
		return
	}
	began := time.Now()
	result, err := p.host.Call(ctx, e.Name, arguments)
	took := p.screen.paint(console.Dim, console.Span(time.Since(began)))
	switch {
	case ctx.Err() != nil:
		p.screen.say("%s%s  canceled", p.screen.paint(console.Yellow, "○ "), took)
	case err != nil:
		// the prompt does not have the command that the error suggests
		text, _, _ := strings.Cut(strings.TrimPrefix(console.Describe(err), e.Name+": "), "\n  next: ")
		p.fail("%s  %s", took, text)
	case result.IsError():
		p.fail("%s  %s", took, console.SafeText(result.Text()))
	default:
		p.screen.say("%s  %s", resultText(result), took)
	}
}

// resultText renders a result for a person: JSON is indented, other text stays as it is.
func resultText(result protocol.ToolResult) string {
	text, others := toolcall.Content(result)
	var b bytes.Buffer
	if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		if json.Indent(&b, []byte(trimmed), "", "  ") == nil {
			text = b.String()
		}
	}
	for _, other := range others {
		text += "(" + other + ")"
	}
	return console.SafeText(strings.TrimSuffix(text, "\n"))
}
