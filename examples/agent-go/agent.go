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

// model is a conversation with a model.
type model interface {
	// answer sends new input and the offered tools, and returns the model's answer.
	answer(ctx context.Context, in input, offered []*tools.Entry) (output, error)
}

// input is the task, or the results of the previous calls.
type input struct {
	task    string
	results []result
}

// output is the model's answer. Without calls, text is the answer to the task.
type output struct {
	text  string
	calls []call
}

// call is a tool call that the model requests.
type call struct {
	id        string // the model's id, which the result must contain
	tool      string // the registered name, or an invented one
	arguments json.RawMessage
}

// result is the result of a call. The model also reads errors, and corrects its next call.
type result struct {
	id     string
	text   string
	failed bool
}

// agent completes tasks with a model and the tools of a host.
type agent struct {
	host  *exthost.Host
	model model
	steps int       // maximum number of requests for tools
	log   io.Writer // receives every call
}

// run returns the model's answer to the task. Errors of tools go to the model. It fails with the error of the
// model's API or of ctx, or if no steps are left.
func (a *agent) run(ctx context.Context, task string) (string, error) {
	in := input{task: task}
	for range a.steps {
		// The tools may have changed since the last step.
		out, err := a.model.answer(ctx, in, a.host.Tools().Entries())
		if err != nil {
			return "", err
		}
		if len(out.calls) == 0 {
			return out.text, nil
		}
		in = input{results: a.callAll(ctx, out.calls)}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
	return "", fmt.Errorf("the model has asked for tools %d times and has no answer; -steps allows more", a.steps)
}

// callAll makes calls in parallel and returns their results in order.
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
	// APIs refuse a failure without text
	text := cmp.Or(answer.Text(), string(answer.Structured()), "(it answers with no text)")
	return result{id: c.id, text: text, failed: answer.IsError()}
}

// explain describes to a model why a call failed and how to proceed.
func explain(err error) string {
	fault, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		return err.Error()
	}
	text := fmt.Sprintf("%s (%s)", fault.Message, fault.Kind)
	if fault.Outcome != "" {
		text += "; it may have been carried out nevertheless"
	}
	if fault.RetryAfter > 0 && fault.Kind != protocol.Rejected { // the reason of a policy already says when
		text += fmt.Sprintf("; try again in %v", max(fault.RetryAfter.Round(time.Second), time.Second))
	}
	return text
}
