package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// model is a conversation with a model, which remembers what was said in it.
type model interface {
	// answer tells the model what is new and which tools it may ask for from now on,
	// and returns what it says.
	answer(ctx context.Context, news input, offered []*tools.Entry) (output, error)
}

// input is what is new to the model: the task, or what came of its calls.
type input struct {
	task    string
	results []result
}

// output is what the model says; without calls text is its answer to the task.
type output struct {
	text  string
	calls []call
}

// call is a tool that the model asks for.
type call struct {
	id        string // the model's, which the result has to name
	tool      string // the registered name, or whatever else the model makes up
	arguments json.RawMessage
}

// result is what came of a call. A model reads failures like everything else, and mends
// its next call.
type result struct {
	id     string
	text   string
	failed bool
}

// agent does tasks with a model and the tools of a host.
type agent struct {
	host  *exthost.Host
	model model
	steps int       // how often the model may ask for tools
	log   io.Writer // is told of every call
}

// run returns the model's answer to the task. What goes wrong with a tool is the model's
// to deal with; an error is one of the model's API, the end of ctx or of the steps.
func (a *agent) run(ctx context.Context, task string) (string, error) {
	news := input{task: task}
	for range a.steps {
		// The tools are looked up for each step: extensions come, go and change meanwhile.
		out, err := a.model.answer(ctx, news, a.host.Tools().Entries())
		if err != nil {
			return "", err
		}
		if len(out.calls) == 0 {
			return out.text, nil
		}
		news = input{results: a.callAll(ctx, out.calls)}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
	return "", fmt.Errorf("the model has asked for tools %d times and has no answer; -steps allows more", a.steps)
}

// callAll makes calls at once and returns their results in the order of the calls.
func (a *agent) callAll(ctx context.Context, calls []call) []result {
	results := make([]result, len(calls))
	var wg sync.WaitGroup
	for i, c := range calls {
		fmt.Fprintf(a.log, "→ %s %s\n", c.tool, c.arguments)
		wg.Go(func() { results[i] = a.call(ctx, c) })
	}
	wg.Wait()
	for i, r := range results {
		sign := "←"
		if r.failed {
			sign = "✗"
		}
		fmt.Fprintf(a.log, "%s %s %s\n", sign, calls[i].tool, strings.TrimSpace(r.text))
	}
	return results
}

func (a *agent) call(ctx context.Context, c call) result {
	answer, err := a.host.Call(ctx, c.tool, c.arguments)
	if err != nil {
		return result{id: c.id, text: explain(err), failed: true}
	}
	text := answer.Text()
	if text == "" {
		text = cmp.Or(string(answer.Structured()), "(it answers with no text)") // a model refuses a failure without words
	}
	return result{id: c.id, text: text, failed: answer.IsError()}
}

// explain says to a model what kept a tool from answering, and what may be done about it.
func explain(err error) string {
	fault, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		return err.Error()
	}
	text := fmt.Sprintf("%s (%s)", fault.Message, fault.Kind)
	if fault.Outcome != "" {
		text += "; it may have been carried out nevertheless"
	}
	if fault.RetryAfter > 0 && fault.Kind != protocol.Rejected { // a policy's reason says when
		text += fmt.Sprintf("; try again in %v", max(fault.RetryAfter.Round(time.Second), time.Second))
	}
	return text
}
