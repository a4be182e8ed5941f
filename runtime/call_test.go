//go:build unix

package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// noter is a client that records its messages.
type noter struct {
	mu    sync.Mutex
	heard []string
	reply json.RawMessage
	err   error
}

func (r *noter) note(kind, method string, params json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, fmt.Sprintf("%s %s %s", kind, method, params))
}

func (r *noter) Call(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	r.note("call", method, params)
	return r.reply, r.err
}

func (r *noter) Notify(_ context.Context, method string, params json.RawMessage) error {
	r.note("notify", method, params)
	return nil
}

const withProgress = `{"name":"echo","arguments":{},"_meta":{"progressToken":42,"k":1}}`

func TestProgressReachesItsCaller(t *testing.T) {
	fault(t)
	r := start(t, spec(t, `init echo; read; `+
		`say {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":$TOKEN,"message":"half"}}; `+
		`say {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":42}}; `+
		`say {"jsonrpc":"2.0","method":"notifications/message","params":{"_meta":{"progressToken":$TOKEN},"data":"d"}}; `+
		`answer; echo`))
	c := &noter{}
	raw, err := r.Call(context.Background(),
		&Request{Method: protocol.MethodToolsCall, Params: json.RawMessage(withProgress), Client: c})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{ // not the one with a guessed token
		`notify notifications/progress {"progress":1,"progressToken":42,"message":"half"}`,
		`notify notifications/message {"_meta":{"progressToken":42},"data":"d"}`,
	}
	if diff := cmp.Diff(want, c.heard); diff != "" {
		t.Error(diff)
	}
	sent := rawjson.Get(rawjson.Get(rawjson.Get(raw, "structuredContent"), "params"), "_meta")
	if token := rawjson.Get(sent, "progressToken"); !strings.HasPrefix(string(token), `"x`) ||
		string(rawjson.Get(sent, "k")) != "1" {
		t.Errorf("the child was sent _meta %s, want a token of our own and the rest", sent)
	}
}

func TestRequestsOfTheChild(t *testing.T) {
	fault(t)
	s := spec(t, `init echo; read; `+
		`say {"jsonrpc":"2.0","id":"mine","method":"sampling/createMessage","params":{"_meta":{"progressToken":$TOKEN}}}; read; answer; `+
		`say {"jsonrpc":"2.0","id":2,"method":"ping"}; read; `+
		`say {"jsonrpc":"2.0","id":3,"method":"roots/list","params":{"x":1}}; read; `+
		`say {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"d"}}; dump; echo`)
	incoming := &noter{err: protocol.Errorf(protocol.Rejected, "no roots for you")}
	told := make(chan struct{})
	s.Incoming = func(ctx context.Context, method string, params json.RawMessage,
		notify bool) (json.RawMessage, error) {
		if notify {
			defer close(told)
			return nil, incoming.Notify(ctx, method, params)
		}
		return incoming.Call(ctx, method, params)
	}
	r := start(t, s)
	client := &noter{reply: json.RawMessage(`{"role":"assistant"}`)}
	if _, err := r.Call(context.Background(),
		&Request{Method: "hooks/x", Params: json.RawMessage(withProgress), Client: client}); err != nil {
		t.Fatal(err)
	}
	await(t, told)
	r.stop() // once the child has dumped its unanswered requests
	if diff := cmp.Diff([]string{`call sampling/createMessage {"_meta":{"progressToken":42}}`},
		client.heard); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`call roots/list {"x":1}`, `notify notifications/message {"data":"d"}`},
		incoming.heard); diff != "" {
		t.Error(diff)
	}
	want := []string{
		`{"jsonrpc":"2.0","id":"mine","result":{"role":"assistant"}}`,
		`{"jsonrpc":"2.0","id":2,"result":{}}`,
		`{"jsonrpc":"2.0","id":3,"error":{"code":-32031,"message":"no roots for you (rejected)","data":{"kind":"rejected"}}}`,
	}
	if diff := cmp.Diff(want, r.Info().Stderr); diff != "" {
		t.Error(diff)
	}
}

// broken is a client that panics on every message.
type broken struct{}

func (broken) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	panic("in Call")
}
func (broken) Notify(context.Context, string, json.RawMessage) error { panic("in Notify") }

// TestPanicEndsOneMessageOfTheChild makes the host panic on a request and a notification, both within a call and
// outside of one. The child gets an error for each request, and the child's answer to the call reaches the caller.
func TestPanicEndsOneMessageOfTheChild(t *testing.T) {
	fault(t)
	s := spec(t, `init echo; read; `+
		`say {"jsonrpc":"2.0","method":"notifications/message","params":{}}; `+
		`say {"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}; read; `+
		`say {"jsonrpc":"2.0","method":"notifications/message","params":{"_meta":{"progressToken":$TOKEN}}}; `+
		`say {"jsonrpc":"2.0","id":2,"method":"elicitation/create","params":{"_meta":{"progressToken":$TOKEN}}}; read; `+
		`answer {}; dump; echo`)
	log := logTo(&s)
	s.Incoming = func(ctx context.Context, method string, params json.RawMessage,
		notify bool) (json.RawMessage, error) {
		if notify {
			return nil, broken{}.Notify(ctx, method, params)
		}
		return broken{}.Call(ctx, method, params)
	}
	r := start(t, s)
	if _, err := r.Call(context.Background(),
		&Request{Method: "hooks/x", Params: json.RawMessage(withProgress), Client: broken{}}); err != nil {
		t.Error(err)
	}
	if _, err := r.Call(context.Background(), &Request{Method: "hooks/x", Params: json.RawMessage(`{}`)}); err != nil {
		t.Errorf("the next call: %v", err)
	}
	r.stop() // once the child has dumped its unanswered requests
	refusal := `"error":{"code":-32603,"message":"the request broke off inside the host, which is at fault; its log says where"}}`
	want := []string{`{"jsonrpc":"2.0","id":1,` + refusal, `{"jsonrpc":"2.0","id":2,` + refusal}
	if diff := cmp.Diff(want, r.Info().Stderr); diff != "" {
		t.Error(diff)
	}
	for _, place := range []string{"in Call", "in Notify"} {
		if n := strings.Count(log.String(), `panic="`+place+`" stack="goroutine`); n != 2 {
			t.Errorf("%d lines of the log say %s:\n%s", n, place, log)
		}
	}
}

// silent is a client that answers no question of the child before the ctx of the question ends. It reports when a
// question arrives and when its ctx ends.
type silent struct {
	*noter
	events chan string
}

func (s silent) Call(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
	s.events <- "asked"
	<-ctx.Done()
	s.events <- "left"
	return nil, ctx.Err()
}

// TestAnswerIsNotHeldBackByAnOpenQuestion has the child answer its call while its own question to the host is open,
// with and without canceling the question. It also has the child cancel a question and ask again.
func TestAnswerIsNotHeldBackByAnOpenQuestion(t *testing.T) {
	const ask = `say {"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{}}; sync asked; `
	const cancel = `say {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}; sync left; `
	const dropped = "a call ended before the client answered a request of the extension"
	for name, tt := range map[string]struct {
		script, steps string
		refused       bool // the child gets an error for its question
	}{
		"given up":            {ask + `answer {}; read; dump`, "asked", true},
		"cancelled":           {ask + cancel + `answer {}`, "asked left", false},
		"cancelled, and anew": {ask + cancel + ask + `answer {}; read; dump`, "asked left asked", true},
	} {
		t.Run(name, func(t *testing.T) {
			fault(t)
			s := mcpSpec(t, `init {"protocolVersion":"2025-11-25","capabilities":{}}; until tools/list; answer {"tools":[]}; read; `+tt.script+`; sync over; echo`, protocol.MCP20251125)
			m := newMeeting(t)
			s.Env = append(s.Env, m.env())
			log := logTo(&s)
			r := start(t, s)
			c := silent{&noter{}, make(chan string, 4)}
			done := r.goCall(context.Background(),
				&Request{
					Method: protocol.MethodToolsCall,
					Params: json.RawMessage(`{"name":"echo"}`),
					Client: c,
					Owner:  "ada",
				})
			for _, step := range strings.Fields(tt.steps) {
				if got := await(t, c.events); got != step {
					t.Fatalf("the client was %s, want %s", got, step)
				}
				m.await(step)()
			}
			if got := await(t, done); got.err != nil {
				t.Error(got.err)
			}
			m.await("over")()
			r.stop()
			if refused := strings.Contains(stderrOf(r), `"id":7,"error"`); refused != tt.refused {
				t.Errorf("the child reads %s", stderrOf(r))
			}
			if told := strings.Contains(log.String(), dropped); told != tt.refused {
				t.Errorf("the log: %s", log)
			}
		})
	}
}

// A caller's claims of identity in _meta reach no child, whether or not the host states who calls.
func TestForgedIdentity(t *testing.T) {
	legacy, modern := newMCP(&Spec{Manifest: &manifest.Manifest{}}), newMCP(&Spec{Manifest: &manifest.Manifest{}})
	modern.modern = true
	const forged = `{"name":"t","arguments":{"x":1.0},"_meta":{"agent_id":"root","session_id":"root","k":2}}`
	for name, d := range map[string]dialect{"native": &native{}, "legacy": legacy, "modern": modern} {
		for _, meta := range []string{"", `{"agent_id":"alice"}`} {
			for _, token := range []json.RawMessage{nil, json.RawMessage(`7`)} {
				_, params, err := d.outgoing(request(forged, meta), token)
				if err != nil {
					t.Fatal(err)
				}
				if text := string(params); strings.Contains(text, "root") ||
					strings.Contains(text, "alice") != (meta != "") || !strings.Contains(text, `"k":2`) {
					t.Errorf("%s, told %q: %s", name, meta, params)
				}
			}
		}
	}
	const plain = `{"name":"t","arguments":{"x":1.0},"_meta":{"k":2}}`
	if _, params, _ := legacy.outgoing(request(plain, ""), nil); string(params) != plain {
		t.Errorf("without any: %s", params)
	}
}

// The host answers roots/list with the operator's directories, even during a call.
func TestConfiguredRoots(t *testing.T) {
	fault(t)
	s := mcpSpec(t, `init {"protocolVersion":"2025-11-25","capabilities":{}}; until tools/list; answer {"tools":[]}; read; `+
		`say {"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"_meta":{"progressToken":$TOKEN}}}; read; answer {}; dump; sync told; echo`, protocol.MCP20251125)
	m := newMeeting(t)
	s.Env = append(s.Env, m.env())
	s.Roots, s.Capabilities = []string{"/srv/my data", "/tmp"}, json.RawMessage(`{"sampling":{}}`)
	r := start(t, s)
	client := &noter{}
	if _, err := r.Call(context.Background(),
		&Request{
			Method: protocol.MethodToolsCall,
			Params: json.RawMessage(withProgress),
			Client: client,
			Owner:  client,
		}); err != nil {
		t.Fatal(err)
	}
	m.await("told")()
	r.stop()
	if offered := string(newMCP(&s).relayed); offered != `{"sampling":{},"roots":{}}` {
		t.Errorf("the server is told of the capabilities %s", offered)
	}
	wantContains(t, stderrOf(r),
		`{"jsonrpc":"2.0","id":7,"result":{"roots":[{"uri":"file:///srv/my%20data","name":"my data"},{"uri":"file:///tmp","name":"tmp"}]}}`)
	if len(client.heard) > 0 {
		t.Errorf("the caller was asked: %v", client.heard)
	}
}

func TestRefusesRequestsNobodyAnswers(t *testing.T) {
	fault(t)
	s, m := metAt(t, `init echo; read; `+
		`say {"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"_meta":{"progressToken":$TOKEN}}}; read; answer; `+
		`say {"jsonrpc":"2.0","id":2,"method":"roots/list"}; read; dump; sync refused; echo`)
	r := start(t, s)
	if _, err := r.request("hooks/x", withProgress); err != nil {
		t.Fatal(err)
	}
	m.await("refused")()
	r.stop()
	if n := len(r.Info().Stderr); n != 2 {
		t.Fatalf("%d refusals, want 2", n)
	}
	for i, line := range r.Info().Stderr {
		wantContains(t, line, fmt.Sprintf(`"id":%d,"error":{"code":-32601`, i+1))
	}
}

func TestExtensionErrorKeepsCodeAndData(t *testing.T) {
	fault(t)
	r := start(t, spec(t, `init echo; read; say {"jsonrpc":"2.0","id":$ID,"error":{"code":-32042,"message":"m","data":{"n":12345678901234567890}}}; echo`))
	_, err := r.callTool()
	fault := wantKind(t, err, protocol.ExtensionError)
	if fault.Code != -32042 || fault.Message != "m" || string(fault.Data) != `{"n":12345678901234567890}` ||
		fault.Outcome != "" {
		t.Errorf("error = %+v", fault)
	}
}

func TestExtensionErrorWithoutMessage(t *testing.T) {
	fault(t)
	r := start(t, spec(t, `init echo; read; say {"jsonrpc":"2.0","id":$ID,"error":{"code":-32042}}; echo`))
	_, err := r.callTool()
	wantContains(t, wantKind(t, err, protocol.ExtensionError).Message, "an error that has no message")
}

func TestToolsListChanged(t *testing.T) {
	fault(t)
	s := spec(t, `init {"tools":[{"name":"old"}],"hooks":["before_tool_call"]}; `+
		`say {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}; read; answer {"tools":[{"name":"new"},{"name":"undeclared"}]}; echo`)
	s.Manifest.Capabilities = capabilities("old", "new")
	changed := make(chan struct{}, 1)
	s.ToolsChanged = func() { changed <- struct{}{} }
	r := start(t, s)
	await(t, changed)
	h := r.Handshake()
	if len(h.Tools) != 1 || h.Tools[0].Name != "new" || len(h.Hooks) != 1 || h.ServerVersion != "" {
		t.Errorf("handshake = %+v", h)
	}
}

func TestOutgoingNative(t *testing.T) {
	d := &native{}
	for _, c := range []struct{ params, meta, token, want string }{
		{``, ``, ``, `{}`},
		{`{"name":"t","arguments":{"b":1e3}}`, ``, ``, `{"name":"t","arguments":{"b":1e3}}`},
		{`{"name":"t"}`, `{"agent_id":"a"}`, ``, `{"name":"t","arguments":{"_meta":{"agent_id":"a"}}}`},
		{`{"name":"t","arguments":{"_meta":"forged","x":1}}`, `{"agent_id":"a"}`, ``,
			`{"name":"t","arguments":{"_meta":{"agent_id":"a"},"x":1}}`},
		{`{"_meta":{"progressToken":1,"k":2},"name":"t"}`, ``, `"x-1"`,
			`{"_meta":{"progressToken":"x-1","k":2},"name":"t"}`},
	} {
		_, got, err := d.outgoing(request(c.params, c.meta), raw(c.token))
		if err != nil || string(got) != c.want {
			t.Errorf("outgoing(%s, %s, %s) = %s, %v, want %s", c.params, c.meta, c.token, got, err, c.want)
		}
	}
}

func TestOutgoingMCP(t *testing.T) {
	const (
		envelope = `{"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"exthost","version":"1"},"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
		inside   = `"io.modelcontextprotocol/clientInfo":{"name":"exthost","version":"1"},"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	)
	s := spec(t, "")
	s.HostVersion = "1"
	for _, c := range []struct {
		modern                    bool
		params, meta, token, want string
	}{
		{false, ``, ``, ``, `{}`},
		{false, `{"name":"t","_meta":{"k":1}}`, ``, ``, `{"name":"t","_meta":{"k":1}}`},
		{false, `{"name":"t"}`, `{"agent_id":"a"}`, ``, `{"name":"t","_meta":{"agent_id":"a"}}`},
		{false, `{"_meta":{"agent_id":"forged","progressToken":1}}`, `{"agent_id":"a"}`, `"x-1"`,
			`{"_meta":{"progressToken":"x-1","agent_id":"a"}}`},
		{true, `{ }`, ``, ``, `{"_meta":` + envelope + ` }`},
		{true, `{"name":"t"}`, ``, ``, `{"_meta":` + envelope + `,"name":"t"}`},
		{true, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"x","io.modelcontextprotocol/clientCapabilities":{"a":1}}}`, ``, ``,
			`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"a":1},"io.modelcontextprotocol/clientInfo":{"name":"exthost","version":"1"}}}`},
		{true, `{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"a":1}}}`, ``, `"x-1"`,
			`{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"a":1},` + inside + `,"progressToken":"x-1"}}`},
	} {
		d := newMCP(&s)
		d.modern = c.modern
		_, got, err := d.outgoing(request(c.params, c.meta), raw(c.token))
		if err != nil || string(got) != c.want {
			t.Errorf("outgoing(%s, %s, %s)\n= %s, %v,\nwant %s", c.params, c.meta, c.token, got, err, c.want)
		}
	}
}

func request(params, meta string) *Request {
	return &Request{Method: protocol.MethodToolsCall, Params: raw(params), Meta: raw(meta)}
}

func raw(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

func TestToolResult(t *testing.T) {
	for in, want := range map[string]string{
		`"a \"b\"\n"`:          `{"content":[{"type":"text","text":"a \"b\"\n"}]}`,
		`12345678901234567890`: `{"content":[{"type":"text","text":"12345678901234567890"}]}`,
		`null`:                 `{"content":[{"type":"text","text":"null"}]}`,
		`[1, "x"]`:             `{"content":[{"type":"text","text":"[1, \"x\"]"}]}`,
		`{"a":"\\"}`:           `{"content":[{"type":"text","text":"{\"a\":\"\\\\\"}"}],"structuredContent":{"a":"\\"}}`,
		"{\"a\":\t1}": `{"content":[{"type":"text","text":"{\"a\":\t1}"}],"structuredContent":{"a":` +
			"\t1}}",
		`{"content":"text"}`:            `{"content":[{"type":"text","text":"{\"content\":\"text\"}"}],"structuredContent":{"content":"text"}}`,
		`{"content":[],"x":1}`:          `{"content":[],"x":1}`,
		`{"isError":true,"content":[]}`: `{"isError":true,"content":[]}`,
		``:                              `{"content":[]}`,
	} {
		answer := []byte(in)
		got, own := toolResult(answer)
		if own { // the memory of the answer is used again
			copy(answer, bytes.Repeat([]byte("!"), len(answer)))
		}
		if string(got) != want {
			t.Errorf("toolResult(%s) = %s, want %s", in, got, want)
		}
		if !json.Valid(got) {
			t.Errorf("toolResult(%s) is no JSON: %s", in, got)
		}
	}
}
