package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/internal/shellwords"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// devWords are what the prompt takes beside the names of tools, which go first; a
// colon before one always means it.
var devWords = []devWord{
	{"help", "this"},
	{"tools", "the tools, and what they take"},
	{"info", "its state, process and last crash"},
	{"reload", "look again, and start what had failed"},
	{"restart", "a new process"},
	{"tap", "show the messages on its wire, or no longer"},
	{"quit", "the end; ctrl-d too"},
}

type devWord struct{ word, does string }

// do does what a line says; false is the end of the session.
func (d *dev) do(ctx context.Context, line string, async bool) bool {
	words, err := shellwords.Split(line)
	if err != nil {
		d.say("%s%v", d.paint(red, "✗ "), err)
		return true
	}
	if len(words) == 0 {
		return true
	}
	if d.run(ctx, words, async) {
		return true
	}
	switch strings.TrimPrefix(words[0], ":") {
	case "quit", "exit":
		return false
	case "help":
		d.help()
	case "tools":
		d.mu.Lock()
		for _, e := range d.host.Tools().Entries() {
			d.showTool(e)
		}
		d.mu.Unlock()
	case "info":
		d.info()
	case "reload":
		_, _ = d.host.Admin().Reload(ctx) // reloaded shows the outcome
	case "restart":
		d.restart(ctx)
	case "tap":
		d.toggleTap(ctx)
	default:
		d.unknown(ctx, words, async)
	}
	return true
}

// run calls the tool that the words name; false when there is none.
func (d *dev) run(ctx context.Context, words []string, async bool) bool {
	e := d.lookup(words[0])
	if e == nil {
		return false
	}
	call := d.begin(ctx, e, words[1:])
	if async {
		d.tasks.Go(call)
	} else {
		call()
	}
	return true
}

// lookup finds a tool by its own name or its registered one.
func (d *dev) lookup(name string) *tools.Entry {
	if slices.ContainsFunc(devWords, func(w devWord) bool { return ":"+w.word == name }) {
		return nil
	}
	entries := d.host.Tools().Entries()
	if i := slices.IndexFunc(entries, func(e *tools.Entry) bool { return e.Tool == name || e.Name == name }); i >= 0 {
		return entries[i]
	}
	return nil
}

// unknown waits for extensions that are still starting, and says what may have been
// meant when none of them has the tool.
func (d *dev) unknown(ctx context.Context, words []string, async bool) {
	starting, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	if d.host.Ready(starting) == nil && d.run(ctx, words, async) {
		return
	}
	word, known := words[0], []string(nil)
	for _, e := range d.host.Tools().Entries() {
		known = append(known, e.Tool)
	}
	for _, w := range devWords {
		known = append(known, w.word)
	}
	text := fmt.Sprintf("there is no tool %q", word)
	if near := nearest.Of(word, known); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	} else {
		text += "; tools lists those there are"
	}
	d.say("%s%s", d.paint(red, "✗ "), safe(text))
}

func (d *dev) help() {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintln(d.out, "TOOL key=value key:=JSON…   call a tool; tab completes")
	for _, w := range devWords {
		fmt.Fprintf(d.out, "%-27s %s\n", w.word, w.does)
	}
}

func (d *dev) info() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.host.Admin().Status().Extensions {
		fmt.Fprintf(d.out, "%s %s, %s, %d calls, %d failed, state in %s\n", safe(x.ID), x.State, runsAs(x), x.Calls, x.Errors, safe(x.StateDir))
		if x.Reason != "" {
			fmt.Fprintln(d.out, "    "+safe(x.Reason))
		}
		if c := x.LastCrash; c != nil {
			fmt.Fprintf(d.out, "    last crash %s ago:\n", span(time.Since(c.Time)))
			d.showReason(c.Reason, c.Evidence)
		}
	}
}

func (d *dev) restart(ctx context.Context) {
	for _, x := range d.host.Status().Extensions {
		began := time.Now()
		err := d.host.Admin().Restart(ctx, x.ID)
		if err != nil {
			d.say("%s%s", d.paint(red, "✗ "), safeText(describe(err)))
			continue
		}
		d.say("%s %s restarted in %s", d.paint(green, "↻"), safe(x.ID), span(time.Since(began)))
	}
}

// toggleTap shows frames, or no longer.
func (d *dev) toggleTap(ctx context.Context) {
	if d.tapping != nil {
		d.tapping()
		d.tapping = nil
		d.say("no longer tapping")
		return
	}
	ctx, d.tapping = context.WithCancel(ctx)
	d.tasks.Go(func() {
		for f := range d.host.Admin().Tap(ctx, "") {
			d.say("%s", d.app.frameLine(&f, len(d.offered) > 1, width(d.app.out)))
		}
	})
	d.say("tapping; tap again ends it")
}

// begin prepares a call, which can be canceled from now on.
func (d *dev) begin(ctx context.Context, e *tools.Entry, pairs []string) (call func()) {
	ctx, cancel := context.WithCancel(ctx)
	d.mu.Lock()
	n := d.next
	d.next++
	d.calls[n] = cancel
	d.mu.Unlock()
	return func() {
		defer cancel()
		d.call(ctx, e, pairs)
		d.mu.Lock()
		delete(d.calls, n)
		d.mu.Unlock()
	}
}

// cancelCalls cancels the calls in flight, and reports whether there were any.
func (d *dev) cancelCalls() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, cancel := range d.calls {
		cancel()
	}
	return len(d.calls) > 0
}

func (d *dev) call(ctx context.Context, e *tools.Entry, pairs []string) {
	arguments, err := withPairs(json.RawMessage("{}"), pairs, e.Name, e.InputSchema)
	if err != nil {
		d.say("%s%s", d.paint(red, "✗ "), safe(err.Error()))
		return
	}
	began := time.Now()
	result, err := d.host.Call(ctx, e.Name, arguments)
	took := d.paint(dim, span(time.Since(began)))
	switch {
	case ctx.Err() != nil:
		d.say("%s%s  canceled", d.paint(yellow, "○ "), took)
	case err != nil:
		text, _, _ := strings.Cut(strings.TrimPrefix(describe(err), e.Name+": "), "\n  next: ") // which is for the command line
		d.say("%s%s  %s", d.paint(red, "✗ "), took, text)
	case result.IsError():
		d.say("%s%s  %s", d.paint(red, "✗ "), took, safeText(result.Text()))
	default:
		d.say("%s  %s", shownResult(result), took)
	}
}

// shownResult is a result for a person: JSON in several lines, other text as it is.
func shownResult(result protocol.ToolResult) string {
	text, others := contentOf(result)
	var b bytes.Buffer
	if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		if json.Indent(&b, []byte(trimmed), "", "  ") == nil {
			text = b.String()
		}
	}
	for _, other := range others {
		text += "(" + other + ")"
	}
	return safeText(strings.TrimSuffix(text, "\n"))
}
