package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

const askable = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",` + canAsk + `}}`

// asks serves a backend with one function over HTTP.
func asks(t *testing.T, run func(ctx context.Context, c *protocol.Call) (json.RawMessage, error)) (url string) {
	return serveHTTP(t, mcpserver.New(asking{newFake(), run}, mcpserver.Options{})).URL + "/mcp"
}

// A request whose call asks nothing keeps its connection open.
func TestCallWithoutQuestionsKeepsItsConnection(t *testing.T) {
	url := asks(t, func(context.Context, *protocol.Call) (json.RawMessage, error) {
		return json.RawMessage(`{"content":[]}`), nil
	})
	for i := range 4 {
		r, _ := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(),
			&httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
				if i > 0 && !c.Reused {
					t.Errorf("request %d got a new connection", i)
				}
			}}), http.MethodPost, url, strings.NewReader(askable))
		r.Header = mirrored(askable)
		r.Header.Set("Content-Type", "application/json")
		response, err := httpClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := text(t, response); !strings.Contains(got, `"content":[]`) || response.Close {
			t.Errorf("request %d: %s", i, got)
		}
		response.Body.Close()
	}
}

// The first question answers the request while the call goes on, even after other messages of the call.
func TestFirstQuestionIsAnAnswer(t *testing.T) {
	for _, before := range []int{0, 1, 3, 0, 1, 3, 0, 1, 3} {
		url := asks(t, func(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
			for range before {
				if err := c.Client.Notify(ctx, protocol.MethodProgress, json.RawMessage(`{"progress":1}`)); err != nil {
					return nil, err
				}
			}
			return c.Client.Call(ctx, "roots/list", nil)
		})
		response := do(t, http.MethodPost, url, mirrored(askable), askable)
		body := text(t, response) // up to its proper end
		if strings.Count(body, protocol.MethodProgress) != before || strings.Count(body, "input_required") != 1 {
			t.Fatalf("behind %d messages: %s", before, body)
		}
		if !response.Close { // the client must not use the connection again
			t.Errorf("behind %d messages, the connection stays", before)
		}
		if before == 0 && (response.Header.Get("Date") == "" ||
			response.Header.Get("Content-Type") != "application/json") {
			t.Errorf("the headers of the answer: %v", response.Header)
		}
		asked := json.RawMessage(body[strings.Index(body, `{"jsonrpc":"2.0","id"`):])
		if got := callPending(t, url,
			answers(rawjson.Get(asked, "result"), `{"roots":["r"]}`)); !strings.Contains(string(got), `"roots":["r"]`) {
			t.Errorf("behind %d messages, the outcome: %s", before, got)
		}
	}
}

// A disconnect ends a call before its first question, but not afterwards.
func TestDisconnectEndsACallThatHasNotAsked(t *testing.T) {
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	url := asks(t, func(ctx context.Context, _ *protocol.Call) (json.RawMessage, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	ctx, disconnect := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(askable))
	r.Header = mirrored(askable)
	r.Header.Set("Content-Type", "application/json")
	var wg sync.WaitGroup
	wg.Go(func() {
		if response, err := httpClient.Do(r); err == nil {
			response.Body.Close()
			t.Error("a request that was given up has an answer")
		}
	})
	get(t, begun, "the call")
	disconnect()
	wg.Wait()
	if err := get(t, ended, "the end of the call"); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// A question asked while the call ends is either refused, or reaches the client, which returns for the outcome. Each
// request gets exactly one answer.
func TestQuestionsRaceTheEndOfTheCall(t *testing.T) {
	var asking sync.WaitGroup
	url := asks(t, func(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
		asks := make(chan struct{}, 2)
		for range 2 {
			asking.Go(func() {
				asks <- struct{}{}
				_, _ = c.Client.Call(ctx, "roots/list", nil)
			})
		}
		<-asks
		return json.RawMessage(`{"content":[]}`), nil
	})
	asked := 0
	for range 300 {
		got := callPending(t, url, "")
		for round := 0; round < 2 && strings.Contains(string(got), "input_required"); round++ {
			asked++
			got = callPending(t, url, answers(got, `{"roots":[]}`))
		}
		if !strings.Contains(string(got), `"content":[]`) {
			t.Fatalf("neither a question nor the outcome: %s", got)
		}
	}
	asking.Wait()
	t.Logf("%d questions in 300 calls", asked)
}

// HTTP/2 cannot answer before the handler ends, so each call has its own goroutine.
func TestQuestionsOverHTTP2(t *testing.T) {
	s := mcpserver.New(asking{newFake(), func(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
		return c.Client.Call(ctx, "roots/list", nil)
	}}, mcpserver.Options{})
	server := httptest.NewUnstartedServer(s.Handler(""))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	defer s.Close()
	post := func(members string) json.RawMessage {
		body := strings.Replace(askable, `"name":"x",`, `"name":"x",`+members, 1)
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body))
		r.Header = mirrored(body)
		r.Header.Set("Content-Type", "application/json")
		response, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		got, _ := io.ReadAll(response.Body)
		if response.ProtoMajor != 2 {
			t.Errorf("protocol %s", response.Proto)
		}
		return rawjson.Get(got, "result")
	}
	asked := post("")
	if !strings.Contains(string(asked), "input_required") {
		t.Fatalf("%s", asked)
	}
	if got := post(answers(asked, `{"roots":["r"]}`)); !strings.Contains(string(got), `"roots":["r"]`) {
		t.Errorf("the outcome: %s", got)
	}
}
