package mcpserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

// canAsk is the _meta of a client that declares all capabilities for server requests.
const canAsk = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{},"sampling":{},"elicitation":{}}}`

// asking is a backend whose calls send requests and wait for the results, as legacy extensions do.
type asking struct {
	*fake
	run func(ctx context.Context, c *protocol.Call) (json.RawMessage, error)
}

func (a asking) Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	return a.run(ctx, c)
}

// callPending posts a tools/call with additional members and returns the result or error.
func callPending(t *testing.T, url, members string) json.RawMessage {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",` + members + canAsk + `}}`
	answer := json.RawMessage(text(t, do(t, http.MethodPost, url, mirrored(body), body)))
	if i := strings.LastIndex(string(answer), "data: "); i >= 0 { // messages precede the answer
		answer = answer[i+len("data: "):]
	}
	if result := rawjson.Get(answer, "result"); result != nil {
		return result
	}
	return rawjson.Get(answer, "error")
}

// answers returns the members that answer every input request in result with value.
func answers(result json.RawMessage, value string) string {
	var all []string
	for key := range rawjson.Members(rawjson.Get(result, "inputRequests")) {
		all = append(all, `"`+key+`":`+value)
	}
	return `"inputResponses":{` + strings.Join(all,
		",") + `},"requestState":` + string(rawjson.Get(result, "requestState")) + `,`
}

func TestPendingCallAsksInRounds(t *testing.T) {
	runs := make(chan struct{}, 4)
	b := asking{newFake(), func(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
		runs <- struct{}{}
		first, err := c.Client.Call(ctx, "elicitation/create",
			json.RawMessage(`{"message":"n","n":12345678901234567890}`))
		if err != nil {
			return nil, err
		}
		if err := c.Client.Notify(ctx, protocol.MethodProgress, json.RawMessage(`{"progress":1}`)); err != nil {
			return nil, err
		}
		second, err := c.Client.Call(ctx, "roots/list", nil)
		return json.RawMessage(`{"content":[],"first":` + string(first) + `,"second":` + string(second) + `}`), err
	}}
	url := serveHTTP(t, mcpserver.New(b, mcpserver.Options{})).URL + "/mcp"
	one := callPending(t, url, "")
	want := `"inputRequests":{"q1":{"method":"elicitation/create","params":{"message":"n","n":12345678901234567890}}}`
	if !strings.Contains(string(one), want) || string(rawjson.Get(one, "resultType")) != `"input_required"` {
		t.Fatalf("first round: %s", one)
	}
	again := callPending(t, url,
		`"inputResponses":{"other":{}},"requestState":`+string(rawjson.Get(one, "requestState"))+`,`)
	if !strings.Contains(string(again), want) {
		t.Fatalf("without an answer: %s", again)
	}
	two := callPending(t, url, answers(again, `{"action":"accept","n":98765432109876543210}`))
	if !strings.Contains(string(two), `{"q2":{"method":"roots/list","params":{}}}`) {
		t.Fatalf("second round: %s", two)
	}
	three := callPending(t, url, answers(two, `{"roots":[]}`))
	if !strings.HasSuffix(string(three),
		`"content":[],"first":{"action":"accept","n":98765432109876543210},"second":{"roots":[]}}`) {
		t.Errorf("outcome: %s", three)
	}
	if len(runs) != 1 {
		t.Errorf("the backend was called %d times", len(runs))
	}
	late := callPending(t, url, answers(two, `{"roots":[]}`)) // a used requestState starts a new call
	if len(runs) != 2 || string(rawjson.Get(late, "resultType")) != `"input_required"` {
		t.Errorf("a state that is spent: %d calls, %s", len(runs), late)
	}
}

// A call that waits for input between requests ends with its caller's token.
func TestPendingCallEndsWithItsCaller(t *testing.T) {
	ended := make(chan error, 1)
	b := asking{newFake(), func(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
		_, err := c.Client.Call(ctx, "roots/list", nil)
		ended <- err
		return nil, err
	}}
	until, end := context.WithCancel(context.Background())
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",` + canAsk + `}}`
	r := httptest.NewRequest(http.MethodPost, "/mcp",
		strings.NewReader(body)).WithContext(mcpserver.WithUntil(t.Context(), until))
	r.Header = mirrored(body)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder() // cannot be detached
	mcpserver.New(b, mcpserver.Options{}).Handler("").ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), "input_required") {
		t.Fatal(w.Body)
	}
	select {
	case err := <-ended:
		t.Fatalf("the call ended early: %v", err)
	default:
	}
	end()
	if err := <-ended; err == nil {
		t.Error("the call has its answer")
	}
}

func TestPendingCallBelongsToItsCaller(t *testing.T) {
	b := asking{newFake(), func(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
		return c.Client.Call(ctx, "roots/list", nil)
	}}
	url := serveHTTP(t, mcpserver.New(b, mcpserver.Options{})).URL + "/mcp"
	post := func(caller, members string) string {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",` + members + canAsk + `}}`
		h := mirrored(body)
		h.Set("Caller", caller)
		return text(t, do(t, http.MethodPost, url, h, body))
	}
	asked := rawjson.Get(json.RawMessage(post("ada", "")), "result")
	if got := post("eve", answers(asked, `{"roots":["of eve"]}`)); !strings.Contains(got, "-32602") {
		t.Errorf("another caller answered: %s", got)
	}
	if got := post("ada", answers(asked, `{"roots":["of ada"]}`)); !strings.Contains(got, "of ada") {
		t.Errorf("its own caller: %s", got)
	}
}

// A client gets no request for a capability that it has not declared.
func TestUndeclaredCapabilityIsNotUsed(t *testing.T) {
	outcome := make(chan string, 1)
	b := asking{newFake(), func(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
		for _, ask := range [][2]string{
			{"sampling/createMessage", `{}`},
			{"elicitation/create", `{"mode":"url"}`},
			{"elicitation/create", `{}`},
		} {
			if _, err := c.Client.Call(ctx, ask[0],
				json.RawMessage(ask[1])); protocol.KindOf(err) != protocol.ToolNotFound {
				outcome <- ask[0] + ask[1]
				return nil, err
			}
		}
		outcome <- ""
		return json.RawMessage(`{}`), nil
	}}
	url := serveHTTP(t, mcpserver.New(b, mcpserver.Options{})).URL + "/mcp"
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",` + strings.Replace(canAsk,
		`,"sampling":{},"elicitation":{}`, ``, 1) + `}}`
	do(t, http.MethodPost, url, mirrored(body), body)
	if got := get(t, outcome, "the call"); got != "" {
		t.Errorf("a client that can only be asked for roots was asked %s", got)
	}
}

// A call that waits for its client ends when the server closes.
func TestPendingCallEndsWithTheServer(t *testing.T) {
	ended := make(chan error, 1)
	b := asking{newFake(), func(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
		_, err := c.Client.Call(ctx, "roots/list", nil)
		ended <- err
		return nil, &protocol.Error{Kind: protocol.Canceled, Message: "it was under way", Outcome: "unknown"}
	}}
	s := mcpserver.New(b, mcpserver.Options{MaxSessions: 1})
	url := serveHTTP(t, s).URL + "/mcp"
	callPending(t, url, "")
	if got := callPending(t, url, ""); !strings.Contains(string(got), "too many calls wait") ||
		!strings.Contains(string(got), `"outcome":"unknown"`) { // the table has room for one call
		t.Errorf("a second one: %s", got)
	}
	get(t, ended, "the second call's end")
	s.Close()
	if err := get(t, ended, "the first call's end"); protocol.KindOf(err) != protocol.ShuttingDown {
		t.Errorf("ended with %v", err)
	}
}

// A cancelled input request does not suspend the call.
func TestPendingCallWithoutInputsIsAnswered(t *testing.T) {
	b := asking{newFake(), func(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
		given, up := context.WithCancel(ctx)
		up()
		_, _ = c.Client.Call(given, "roots/list", nil)
		return json.RawMessage(`{"content":[]}`), nil
	}}
	url := serveHTTP(t, mcpserver.New(b, mcpserver.Options{})).URL + "/mcp"
	for range 20 { // the call may be suspended before the input request is cancelled
		if got := callPending(t, url, ""); strings.Contains(string(got), `"inputRequests":{}`) {
			t.Fatalf("the client is asked nothing: %s", got)
		}
	}
}

// A client may take as long as the question waits, and no less than five minutes.
func TestPendingCallWaitsForItsQuestion(t *testing.T) {
	for _, tt := range []struct {
		question, took time.Duration
		answered       bool
	}{
		{0, 4 * time.Minute, true},
		{0, 6 * time.Minute, false},
		{time.Minute, 4 * time.Minute, true}, // the outcome says that it is late
		{10 * time.Minute, 9 * time.Minute, true},
		{10 * time.Minute, 11 * time.Minute, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			s := mcpserver.New(asking{newFake(), func(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
				if runs++; tt.question > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.question)
					defer cancel()
				}
				_, _ = c.Client.Call(ctx, "roots/list", nil)
				return json.RawMessage(`{"content":[]}`), nil
			}}, mcpserver.Options{})
			defer s.Close()
			post := func(members string) json.RawMessage {
				body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",` + members + canAsk + `}}`
				r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
				r.Header = mirrored(body)
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				s.Handler("").ServeHTTP(w, r)
				return rawjson.Get(w.Body.Bytes(), "result")
			}
			asked := post("")
			time.Sleep(tt.took) // synctest time
			got := post(answers(asked, `{"roots":[]}`))
			if answered := rawjson.Get(got, "content") != nil && runs == 1; answered != tt.answered {
				t.Errorf("a question of %v, answered after %v: %d runs, %s", tt.question, tt.took, runs, got)
			}
		})
	}
}

// The body of a pending call counts against the budget until the call ends.
func TestPendingCallsCountTheirBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := asking{newFake(), func(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
			return c.Client.Call(ctx, "roots/list", nil)
		}}
		s := mcpserver.New(b, mcpserver.Options{})
		defer s.Close()
		budget := mcphttp.NewBudget(64 << 10)
		post := func(members string) *httptest.ResponseRecorder {
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",` + members + canAsk + `}}`
			r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
			r.Header = mirrored(body)
			r.Header.Set("Content-Type", "application/json")
			r, release := budget.Meter(r)
			defer release()
			w := httptest.NewRecorder()
			s.Handler("").ServeHTTP(w, r)
			return w
		}
		large := `"arguments":{"x":"` + strings.Repeat("x", 40<<10) + `"},`
		asked := post(large)
		if again := post(large); asked.Code != http.StatusOK || again.Code != http.StatusServiceUnavailable {
			t.Errorf("the first %d %s, the second %d", asked.Code, asked.Body, again.Code)
		}
		post(answers(rawjson.Get(asked.Body.Bytes(), "result"), `{"roots":[]}`))
		if after := post(large); after.Code != http.StatusOK {
			t.Errorf("once it is answered: %d %s", after.Code, after.Body)
		}
	})
}
