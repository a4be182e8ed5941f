package vendortest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// witness records the errors that a vendor reports.
type witness struct {
	testing.TB
	mu         sync.Mutex
	complaints string
}

func (w *witness) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.complaints += fmt.Sprintf(format, args...) + "\n"
}

func (w *witness) Failed() bool { return false }

// take returns the errors since the last call.
func (w *witness) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.complaints = "" }()
	return w.complaints
}

// post sends a request like a loop and returns the status of the answer.
func post(t *testing.T, v *Vendor, path, key, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, v.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{
		"Content-Type":      {"application/json"},
		"X-Api-Key":         {key},
		"Anthropic-Version": {"2023-06-01"},
		"Authorization":     {"Bearer " + key},
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

var asks = Turn{Calls: []Call{{Tool: "ext_a_b", Arguments: `{}`}}}

// TestInvalidRequestsAreRefused sends requests that real vendors refuse, after a valid one.
func TestInvalidRequestsAreRefused(t *testing.T) {
	const (
		toolA  = `{"name":"ext_a_b","description":"","input_schema":{"type":"object"}}`
		userA  = `{"role":"user","content":"task"}`
		saidA  = `{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"c2lnbmVk"},{"type":"tool_use","id":"call_0_0","name":"ext_a_b","input":{}}]}`
		gaveA  = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_0_0","content":"x"}]}`
		toolO  = `{"type":"function","function":{"name":"ext_a_b","description":"","parameters":{"type":"object"}}}`
		beginO = `{"role":"system","content":"s"},{"role":"user","content":"task"}`
		saidO  = `{"role":"assistant","content":null,"refusal":null,"annotations":[],"tool_calls":[{"id":"call_0_0","type":"function","function":{"name":"ext_a_b","arguments":"{}"}}]}`
		gaveO  = `{"role":"tool","tool_call_id":"call_0_0","content":"x"}`
	)
	messages := func(tools string, list ...string) string {
		return `{"model":"m","max_tokens":1,"system":"s","tools":[` + tools + `],"messages":[` + strings.Join(list,
			",") + `]}`
	}
	chat := func(tools string, list ...string) string {
		return `{"model":"m","tools":[` + tools + `],"messages":[` + strings.Join(list, ",") + `]}`
	}
	for _, c := range []struct {
		name   string
		serve  func(testing.TB, ...Turn) *Vendor
		path   string
		bodies []string // the last one is tested
		want   string   // part of the error; "" is none
	}{
		{"messages", Anthropic, "/v1/messages", []string{messages(toolA, userA), messages(toolA, userA, saidA, gaveA)},
			""},
		{"result missing", Anthropic, "/v1/messages",
			[]string{messages(toolA, userA), messages(toolA, userA, saidA, userA)}, "the results of answer 0"},
		{"result of another call", Anthropic, "/v1/messages",
			[]string{messages(toolA, userA), messages(toolA, userA, saidA, strings.Replace(gaveA, "0_0", "0_1", 1))},
			"not the result of call_0_0"},
		{"thinking dropped", Anthropic, "/v1/messages",
			[]string{messages(toolA, userA), messages(toolA, userA, strings.Replace(saidA, "c2lnbmVk", "", 1), gaveA)},
			"answer 0 of the model is repeated as"},
		{"name", Anthropic, "/v1/messages", []string{messages(strings.Replace(toolA, "ext_a_b", "ext.a.b", 1), userA)},
			`tool name "ext.a.b"`},
		{"twice", Anthropic, "/v1/messages", []string{messages(toolA+","+toolA, userA)}, `tool name "ext_a_b"`},
		{"schema", Anthropic, "/v1/messages", []string{messages(strings.Replace(toolA, "object", "string", 1), userA)},
			"its schema is"},
		{"unknown member", Anthropic, "/v1/messages",
			[]string{strings.Replace(messages(toolA, userA), "system", "sistem", 1)}, "unknown field"},
		{"path", Anthropic, "/messages", []string{messages(toolA, userA)}, "POST /messages"},

		{"chat", OpenAI, "/chat/completions", []string{chat(toolO, beginO), chat(toolO, beginO, saidO, gaveO)}, ""},
		{"no message for a call", OpenAI, "/chat/completions",
			[]string{chat(toolO, beginO), chat(toolO, beginO, saidO)}, "there is no message by tool"},
		{"message too many", OpenAI, "/chat/completions",
			[]string{chat(toolO, beginO), chat(toolO, beginO, saidO, gaveO, gaveO)}, "1 messages too many"},
		{"empty tools", OpenAI, "/chat/completions", []string{chat("", beginO)}, "no empty list of tools"},
		{"no function", OpenAI, "/chat/completions",
			[]string{chat(strings.Replace(toolO, "function", "tool", 1), beginO)}, `a tool of type "tool"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &witness{TB: t}
			v := c.serve(w, asks, Turn{Text: "done"})
			if status := post(t, v, c.path, "another", c.bodies[0]); status != http.StatusUnauthorized {
				t.Errorf("another key: %d", status)
			}
			w.take() // ignore errors of the first bodies
			status := 0
			for _, body := range c.bodies {
				status = post(t, v, c.path, Key, body)
			}
			heard := w.take()
			if !strings.Contains(heard, c.want) || (c.want == "") != (heard == "") ||
				(c.want == "") != (status == http.StatusOK) {
				t.Errorf("%d, %s", status, heard)
			}
		})
	}
}

// A loop that stops before the last answer is reported.
func TestUnfinishedLoopIsReported(t *testing.T) {
	w := &witness{TB: t}
	t.Run("loop", func(t *testing.T) {
		w.TB = t
		Anthropic(w, asks)
	})
	if heard := w.take(); !strings.Contains(heard, "the model was asked 0 times, not 1") {
		t.Error(heard)
	}
}
