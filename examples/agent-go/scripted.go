package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/tools"
)

// scripted stands in for a model where there is none. It understands no sentence, but
// does what a model does: it chooses among the tools that it is offered, by the words
// that the task shares with their names and descriptions, gives them the texts in quotes
// and the numbers of the task as arguments, and reports what they answer.
//
// "then" and ";" in a task begin a new step, "and" joins what is done at once.
type scripted struct {
	steps  [][]*wish
	asked  []string // the tools of the step that is under way
	report []string
}

// wish is a part of a task that takes one call.
type wish struct {
	words  []string
	values map[string][]json.RawMessage // by the type of JSON Schema
}

var token = regexp.MustCompile(`"[^"]*"|-?(?:0|[1-9]\d*)(?:\.\d+)?|[\pL]+|;`)

// readTask splits a task into steps of wishes.
func readTask(task string) (steps [][]*wish) {
	var w *wish
	begin := func() { w = &wish{values: map[string][]json.RawMessage{}} }
	begin()
	steps = [][]*wish{{w}}
	for _, t := range token.FindAllString(task, -1) {
		last := len(steps) - 1
		switch {
		case t == ";" || t == "then":
			begin()
			steps = append(steps, []*wish{w})
		case t == "and":
			begin()
			steps[last] = append(steps[last], w)
		case t[0] == '"':
			text, _ := json.Marshal(strings.Trim(t, `"`))
			w.values["string"] = append(w.values["string"], text)
		case strings.ContainsAny(t[:1], "-0123456789"):
			for _, kind := range []string{"number", "integer"} {
				w.values[kind] = append(w.values[kind], json.RawMessage(t))
			}
		default:
			w.words = append(w.words, strings.ToLower(t))
		}
	}
	return steps
}

func (m *scripted) answer(_ context.Context, news input, offered []*tools.Entry) (output, error) {
	if news.results == nil {
		m.steps = readTask(news.task)
	}
	for i, r := range news.results {
		outcome := "says"
		if r.failed {
			outcome = "fails"
		}
		m.report = append(m.report, fmt.Sprintf("%s %s: %s", m.asked[i], outcome, strings.TrimSpace(r.text)))
	}
	for len(m.steps) > 0 {
		var out output
		m.asked = nil
		for _, w := range m.steps[0] {
			if len(w.words) == 0 {
				continue
			}
			tool := w.choose(offered)
			if tool == nil {
				m.report = append(m.report, fmt.Sprintf("no tool that I am offered does %q", strings.Join(w.words, " ")))
				continue
			}
			m.asked = append(m.asked, tool.Name)
			out.calls = append(out.calls, call{fmt.Sprintf("call_%d", len(m.asked)), tool.Name, w.arguments(tool.InputSchema)})
		}
		m.steps = m.steps[1:]
		if len(out.calls) > 0 {
			return out, nil
		}
	}
	return output{text: strings.Join(m.report, "\n")}, nil
}

var word = regexp.MustCompile(`[\pL]+`)

// choose returns the tool that shares most words with the wish: one in its name counts
// three times, one in its description once if it is long enough to mean something.
func (w *wish) choose(offered []*tools.Entry) (best *tools.Entry) {
	most := 0
	for _, t := range offered {
		name := word.FindAllString(strings.ToLower(t.Name), -1)
		description := word.FindAllString(strings.ToLower(t.Description), -1)
		score := 0
		for _, v := range w.words {
			if slices.Contains(name, v) {
				score += 3
			} else if len(v) > 3 && slices.Contains(description, v) {
				score++
			}
		}
		if score > most {
			best, most = t, score
		}
	}
	return best
}

// arguments are the values of the wish, each under the first property of its type that
// has none yet; required properties come first.
func (w *wish) arguments(schema json.RawMessage) json.RawMessage {
	var s struct {
		Required   []string
		Properties map[string]struct{ Type any }
	}
	_ = json.Unmarshal(schema, &s) // of a schema that says something else, nothing is known
	args, used := map[string]json.RawMessage{}, map[string]int{}
	for _, name := range append(s.Required, slices.Sorted(maps.Keys(s.Properties))...) {
		kind, _ := s.Properties[name].Type.(string)
		if _, given := args[name]; !given && used[kind] < len(w.values[kind]) {
			args[name] = w.values[kind][used[kind]]
			used[kind]++
		}
	}
	data, _ := json.Marshal(args) // numbers were matched as JSON has them
	return data
}
