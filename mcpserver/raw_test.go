package mcpserver_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

// exotic are arguments that change when they are decoded and encoded again.
const exotic = `{"n":12345678901234567890,"z":1e400,"b":{"é":"日本 \u00e9\/ 🎈","a":1.10},"a":-0,"dup":1,"dup":2,"html":"<&>"}`

func TestBytesSurvive(t *testing.T) {
	eachRaw(t, mcpserver.Options{}, func(t *testing.T, b *fake, c *rawClient) {
		added, listed := "", toolsList
		if c.stateless {
			added = `"resultType":"complete",`
			listed = `{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + toolsList[1:]
		}
		for _, test := range []struct{ id, method, members, want string }{
			{`"ü/\u00fc"`, "tools/call", `"name":"echo","arguments":` + exotic,
				`{` + added + `"content":[],"structuredContent":` + exotic + `}`},
			{`7`, "tools/list", ``, listed},
			{`-1`, "x/custom", `"unknown":` + exotic, ""},
		} {
			c.request(test.id, test.method, test.members)
			if test.want == "" { // the backend returns its params
				test.want = `{` + added + string(get(t, b.calls, "the call").Params[1:])
			}
			want := `{"jsonrpc":"2.0","id":` + test.id + `,"result":` + test.want + `}`
			if got := get(t, c.heard, "the answer"); got != want {
				t.Errorf("%s\n got %s\nwant %s", test.method, got, want)
			}
		}
	})
}

func TestParamsReachTheBackendAsSent(t *testing.T) {
	eachRaw(t, mcpserver.Options{}, func(t *testing.T, b *fake, c *rawClient) {
		c.request(`1`, "x/custom", `"unknown":`+exotic)
		call := get(t, b.calls, "the call")
		if !strings.HasPrefix(string(call.Params), `{"unknown":`+exotic) {
			t.Errorf("params %s", call.Params)
		}
		if call.Session == nil || call.Session.Version == "" || (call.Session.ID == "") != c.stateless {
			t.Errorf("session %+v", call.Session)
		}
	})
}

func TestMessagesOfACallPrecedeItsAnswer(t *testing.T) {
	eachRaw(t, mcpserver.Options{}, func(t *testing.T, _ *fake, c *rawClient) {
		members := `"name":"count","_meta":{"progressToken":"p"}`
		want := []string{"progress", "progress", "progress", "message", "result"}
		if c.stateless { // the request has no logLevel
			members = `"name":"count"`
			want = slices.Delete(want, 3, 4)
		}
		c.request(`1`, "tools/call", members)
		for _, kind := range want {
			if got := get(t, c.heard, kind); !strings.Contains(got, kind) {
				t.Fatalf("got %s, want %s", got, kind)
			}
		}
	})
}

func TestLogMessagesNeedALevel(t *testing.T) {
	url := serveHTTP(t, mcpserver.New(newFake(), mcpserver.Options{})).URL + "/mcp"
	c := postingClient(t, url, nil, true)
	meta := strings.TrimSuffix(metaOnly, "}") + `,"io.modelcontextprotocol/logLevel":"info","progressToken":1}`
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count",` + meta + `}}`)
	for _, want := range []string{`"progress":0`, `"progress":1`, `"progress":2`, "counted", "result"} {
		if got := get(t, c.heard, want); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	eachRaw(t, mcpserver.Options{}, func(t *testing.T, _ *fake, c *rawClient) {
		for _, test := range []struct{ method, members, want string }{
			{"test/unknown", ``,
				`"error":{"code":-32601,"message":"method \"test/unknown\" is not served here (tool_not_found)","data":{"kind":"tool_not_found"}}`},
			{"test/unencodable", ``, `"error":{"code":-32603,"message":"plain failure"}`},
			{"tools/call", `"name":"child"`,
				`"error":{"code":-32021,"message":"needs sampling","data":{"requiredCapabilities":{"sampling":{}}, "n":12345678901234567890}}`},
			{"tools/call", `"name":"none"`, `"code":-32602,"message":"there is no tool \"none\" (tool_not_found)"`},
			{"tools/call", `"name":"bad"`,
				`"content":[{"type":"text","text":"argument city is missing"}],"isError":true,"_meta":{"exthost/error":{"kind":"invalid_arguments"}}`},
		} {
			c.request(`5`, test.method, test.members)
			got := get(t, c.heard, test.method)
			if !strings.Contains(got, test.want) || !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":5,`) {
				t.Errorf("%s {%s}\n got %s\nwant %s", test.method, test.members, got, test.want)
			}
		}
	})
}

func TestMessagesAfterTheAnswerAreDropped(t *testing.T) {
	eachRaw(t, mcpserver.Options{}, func(t *testing.T, b *fake, c *rawClient) {
		c.request(`1`, "x/custom", ``)
		client := get(t, b.calls, "the call").Client
		get(t, c.heard, "the answer")
		ctx := context.Background()
		if err := client.Notify(ctx, "notifications/progress", nil); err == nil {
			t.Error("Notify succeeded after the answer")
		}
		if _, err := client.Call(ctx, "roots/list", nil); err == nil {
			t.Error("Call succeeded after the answer")
		}
		c.request(`2`, "tools/call", `"name":"echo","arguments":{}`)
		if got := get(t, c.heard, "the next answer"); !strings.Contains(got, `"id":2`) {
			t.Errorf("heard %s", got)
		}
	})
}

func TestRequestsInFlightAreBounded(t *testing.T) {
	eachRaw(t, mcpserver.Options{MaxInFlight: 1}, func(t *testing.T, b *fake, c *rawClient) {
		if strings.HasSuffix(t.Name(), "/http/stateless") {
			t.Skip("such requests have nothing in common to count them by")
		}
		go c.request(`1`, "tools/call", `"name":"hang"`) // over HTTP, request returns only with the answer
		get(t, b.calls, "the first call")
		c.request(`2`, "x/custom", ``)
		if got := get(t, c.heard, "the refusal"); !strings.Contains(got, `"id":2,"error":{"code":-32016`) {
			t.Errorf("heard %s", got)
		}
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"stop was pressed"}}`)
		if err := get(t, b.ended, "the call to end"); protocol.KindOf(err) != protocol.Canceled ||
			err.Error() != "stop was pressed" {
			t.Errorf("the call ended with %v", err)
		}
	})
}

func TestIDsInFlightAreUnique(t *testing.T) {
	eachRaw(t, mcpserver.Options{}, func(t *testing.T, b *fake, c *rawClient) {
		if strings.HasSuffix(t.Name(), "/http/stateless") {
			t.Skip("every request is on its own")
		}
		go c.request(`"a"`, "tools/call", `"name":"hang"`)
		get(t, b.calls, "the first call")
		c.request(`"a"`, "x/custom", ``)
		if got := get(t, c.heard, "the refusal"); !strings.Contains(got, `"error":{"code":-32600`) {
			t.Errorf("heard %s", got)
		}
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`)
		get(t, b.ended, "the call to end")
	})
}

// A tool that does not exist is an invalid parameter, as in both revisions of MCP; the kind says what it is.
func TestUnknownTool(t *testing.T) {
	eachRaw(t, mcpserver.Options{}, func(t *testing.T, _ *fake, c *rawClient) {
		c.request("1", "tools/call", `"name":"absent"`)
		want := `"error":{"code":-32602,"message":"there is no tool \"absent\" (tool_not_found)","data":{"kind":"tool_not_found"`
		if got := get(t, c.heard, "the answer"); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// rejecting is a backend that rejects every call.
type rejecting struct {
	*fake
	withErrors bool
}

func (rejecting) Do(context.Context, *protocol.Call) (json.RawMessage, error) {
	return nil, protocol.Errorf(protocol.Rejected, "policy p: no")
}

func (r rejecting) RejectionErrors() bool { return r.withErrors }

// A rejected call of a tool is a result for the model, or an error if the operator wants that.
func TestRejections(t *testing.T) {
	for withErrors, want := range map[bool]string{
		false: `"result":{"content":[{"type":"text","text":"policy p: no"}],"isError":true,`,
		true:  `"error":{"code":-32031,"message":"policy p: no (rejected)","data":{"kind":"rejected"`,
	} {
		in, out := serveStdio(t, mcpserver.New(rejecting{newFake(), withErrors}, mcpserver.Options{}))
		c := rawClient{send: writeLines(in), heard: lines(out)}
		c.send(initialize)
		get(t, c.heard, "the answer to initialize")
		c.request("1", "tools/call", `"name":"echo"`)
		if got := get(t, c.heard, "the answer"); !strings.Contains(got, want) {
			t.Errorf("with errors %t: %s", withErrors, got)
		}
	}
}
