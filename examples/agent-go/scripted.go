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

// scripted replaces a model where there is no key. It does not understand language. It
// selects the tool that shares the most words with the task in its name and description,
// passes the quoted strings and the numbers of the task as arguments, and reports the
// results.
//
// "then" and ";" separate steps of a task, "and" joins calls of one step.
type scripted struct {
	steps  [][]*subtask
	asked  []string // tools of the current step
	report []string
}

// subtask is the part of a task that needs one call.
type subtask struct {
	words  []string
	values map[string][]json.RawMessage // by JSON Schema type
}

var token = regexp.MustCompile(`"[^"]*"|-?(?:0|[1-9]\d*)(?:\.\d+)?|[\pL]+|;`)

// readTask splits a task into steps of subtasks.
func readTask(task string) (steps [][]*subtask) {
	var w *subtask
	begin := func() { w = &subtask{values: map[string][]json.RawMessage{}} }
	begin()
	steps = [][]*subtask{{w}}
	for _, t := range token.FindAllString(task, -1) {
		last := len(steps) - 1
		switch {
		case t == ";" || t == "then":
			begin()
			steps = append(steps, []*subtask{w})
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

func (m *scripted) answer(_ context.Context, in input, offered []*tools.Entry) (output, error) {
	if in.results == nil {
		m.steps = readTask(in.task)
	}
	for i, r := range in.results {
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
				m.report = append(m.report,
					fmt.Sprintf("no tool that I am offered does %q", strings.Join(w.words, " ")))
				continue
			}
			m.asked = append(m.asked, tool.Name)
			out.calls = append(out.calls,
				call{fmt.Sprintf("call_%d", len(m.asked)), tool.Name, w.arguments(tool.InputSchema)})
		}
		m.steps = m.steps[1:]
		if len(out.calls) > 0 {
			return out, nil
		}
	}
	return output{text: strings.Join(m.report, "\n")}, nil
}

var word = regexp.MustCompile(`[\pL]+`)

// choose returns the tool with the highest score: three points for each word of the subtask
// in the tool's name, one for each long word that only its description has.
func (w *subtask) choose(offered []*tools.Entry) (best *tools.Entry) {
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

// arguments assigns the values of the subtask to the properties of their types, required
// properties first.
func (w *subtask) arguments(schema json.RawMessage) json.RawMessage {
	var s struct {
		Required   []string
		Properties map[string]struct{ Type any }
	}
	_ = json.Unmarshal(schema, &s) // other schemas: no arguments
	args, used := map[string]json.RawMessage{}, map[string]int{}
	for _, name := range append(s.Required, slices.Sorted(maps.Keys(s.Properties))...) {
		kind, _ := s.Properties[name].Type.(string)
		if _, given := args[name]; !given && used[kind] < len(w.values[kind]) {
			args[name] = w.values[kind][used[kind]]
			used[kind]++
		}
	}
	data, _ := json.Marshal(args) // numbers were matched as JSON numbers
	return data
}
