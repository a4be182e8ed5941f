//go:build unix

package runtime

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

func capabilities(tools ...string) *manifest.Capabilities {
	return &manifest.Capabilities{Tools: tools}
}

func liteSpec(t testing.TB, script string) Spec {
	s := spec(t, script)
	s.Manifest.Transport.Protocol = manifest.ProtocolLite
	s.Manifest.Tools = []manifest.ToolSpec{
		{
			Name:        "echo",
			Description: "echoes",
			InputSchema: map[string]any{"type": "object", "big": int64(1234567890123456789)},
		},
		{Name: "renamed", Method: "do/it"},
	}
	s.Options.MaxInFlight = 1
	return s
}

func TestLite(t *testing.T) {
	fault(t)
	r := start(t, liteSpec(t, `read; say {"id":1,"result":"done"}; read; say {"id":2,"result":"done"}; `+
		`read; say {"id":3,"result":"done"}; read; dump; exit 0`))
	if h := r.Handshake(); h.Protocol != "lite" || len(h.Tools) != 2 ||
		string(h.Tools[0].Raw) !=
			`{"description":"echoes","inputSchema":{"big":1234567890123456789,"type":"object"},"name":"echo"}` ||
		!strings.Contains(string(h.Tools[1].Raw), `"inputSchema":{"type":"object"}`) {
		t.Errorf("handshake = %+v", h)
	}
	for _, params := range []string{
		`{"name":"echo","arguments":{"n":1e2}}`,
		`{"name":"echo"}`,
		`{"name":"echo","arguments":{ }}`,
	} {
		if got, err := r.request(protocol.MethodToolsCall, params); err != nil ||
			protocol.ToolResult(got).Text() != "done" {
			t.Errorf("%s: got %s, %v", params, got, err)
		}
	}
	_, err := r.callTool()
	fault := wantKind(t, err, protocol.ChildExited)
	want := []string{
		`{"id":1,"method":"echo","params":{"n":1e2}}`,
		`{"id":2,"method":"echo"}`,
		`{"id":3,"method":"echo"}`,
		`{"id":4,"method":"echo","params":{"n":12345678901234567890}}`,
	}
	if diff := cmp.Diff(want, fault.Evidence.Stderr); diff != "" {
		t.Errorf("the child was sent\n%s", diff)
	}
}

func TestLiteMethodsAndMeta(t *testing.T) {
	fault(t)
	r := start(t, liteSpec(t, "echo"))
	for _, c := range []struct{ params, meta, want string }{
		{`{"name":"echo","arguments":{"x":1}}`, ``, `{"method":"echo","params":{"x":1}}`},
		{`{"name":"echo"}`, ``, `{"method":"echo","params":{}}`},
		{`{"name":"renamed","arguments":null}`, `{"agent_id":"a"}`,
			`{"method":"do/it","params":{"_meta":{"agent_id":"a"}}}`},
	} {
		got, err := r.Call(context.Background(), request(c.params, c.meta))
		if err != nil || string(protocol.ToolResult(got).Structured()) != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.params, got, err, c.want)
		}
	}
	_, err := r.request(protocol.MethodToolsCall, `{"name":"absent"}`)
	wantKind(t, err, protocol.ToolNotFound)
	_, err = r.request("hooks/before_tool_call", `{}`)
	wantKind(t, err, protocol.ToolNotFound)
	wantKind(t, r.Notify(context.Background(), "notifications/x", nil), protocol.ToolNotFound)
}

func TestLiteGarbageEndsTheCall(t *testing.T) {
	fault(t)
	r := start(t, liteSpec(t, `read; say Traceback (most recent call last); answer "late"; echo`))
	_, err := r.callTool()
	fault := wantKind(t, err, protocol.InvalidJSON)
	if fault.Evidence == nil || fault.Evidence.Line != "Traceback (most recent call last)" ||
		fault.Outcome != "unknown" {
		t.Errorf("error = %+v", fault)
	}
	if _, err := r.callTool(); err != nil {
		t.Errorf("the slot was not freed: %v", err)
	}
}

// TestLiteLateAnswerFreesTheSlot makes a second call wait for the answer to the first, canceled one.
func TestLiteLateAnswerFreesTheSlot(t *testing.T) {
	fault(t)
	s := liteSpec(t, `read; sync asked; answer "late"; echo`)
	m := newMeeting(t)
	s.Env = append(s.Env, m.env())
	r := start(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	first := r.goCall(ctx, request(`{"name":"echo"}`, ""))
	goOn := m.await("asked")
	cancel()
	wantKind(t, await(t, first).err, protocol.Canceled)
	second := r.goCall(context.Background(), request(`{"name":"echo","arguments":{"second":true}}`, ""))
	goOn()
	a := await(t, second)
	if a.err != nil {
		t.Fatal(a.err)
	}
	wantContains(t, string(a.raw), `"second":true`)
}

func TestLiteHungIsRecycled(t *testing.T) {
	fault(t)
	s := liteSpec(t, "read; hang")
	s.Options.CallTimeout = 50 * time.Millisecond
	r := start(t, s)
	_, err := r.callTool()
	if fault := wantKind(t, err, protocol.CallTimeout); fault.Outcome != "unknown" {
		t.Errorf("outcome = %q, want unknown", fault.Outcome)
	}
	_, err = r.callTool()
	if fault := wantKind(t, err, protocol.Overloaded); fault.Outcome != "" {
		t.Errorf("outcome = %q for a call that was never sent", fault.Outcome)
	}
	r.end(protocol.Overloaded)
}

func TestLiteExit(t *testing.T) {
	fault(t)
	r := start(t, liteSpec(t, "read; err gone; exit 4"))
	_, err := r.callTool()
	if fault := wantKind(t, err, protocol.ChildExited); fault.Outcome != "unknown" || *fault.Evidence.ExitCode != 4 {
		t.Errorf("error = %+v", fault)
	}
	r.end(protocol.ChildExited)
}

func TestLiteStopIsTheEndOfStdin(t *testing.T) {
	fault(t)
	s := liteSpec(t, "read; dump; eof; err bye")
	s.Options.ShutdownGrace = 10 * patience
	r := start(t, s)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if got := stderrOf(r); got != "bye" {
		t.Errorf("the child heard %q before the end of stdin", got)
	}
}

// Each faulty line fails its call at once, with a matching kind.
func TestLiteFaultyAnswers(t *testing.T) {
	fault(t)
	cases := []struct {
		line string
		kind protocol.Kind
		want string
	}{
		{`42`, protocol.InvalidResponse, "no answer"},
		{`null`, protocol.InvalidResponse, "no answer"},
		{`["a"]`, protocol.InvalidResponse, "no answer"},
		{`{"foo":1}`, protocol.InvalidResponse, "no answer"},
		{`{"id":1,"result":1,"error":{}}`, protocol.InvalidResponse, "both result and error"},
		{`{"id":1,"error":{"code":"x"}}`, protocol.InvalidResponse, "code of its error is not a whole number"},
		{`{"id":77,"result":1}`, protocol.InvalidResponse, "has the id 77"},
		{`{"id":null,"error":{"code":-32700,"message":"what"}}`, protocol.InvalidResponse, "has the id null"},
		{`{"id":1,`, protocol.InvalidJSON, "unexpected end"},
		{`oops`, protocol.InvalidJSON, "not JSON"},
	}
	script := ""
	for i, c := range cases {
		script += "read; say " + strings.Replace(c.line, `"id":1,`, fmt.Sprintf(`"id":%d,`, i+1), 1) + "; "
	}
	s := liteSpec(t, script+`read; last "fine"`)
	s.Options.CallTimeout = 10 * patience
	r := start(t, s)
	for _, c := range cases {
		_, err := r.callTool()
		fault := wantKind(t, err, c.kind)
		if fault.Outcome != "unknown" || fault.Evidence == nil || fault.Evidence.Line == "" ||
			!strings.Contains(fault.Message, c.want) {
			t.Errorf("%s: %+v, evidence %+v", c.line, fault, fault.Evidence)
		}
	}
	if _, err := r.callTool(); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// Lines that a call printed besides its answer do not fail the next call.
func TestLiteTracebackSpoilsOneCall(t *testing.T) {
	fault(t)
	// One write: the host cannot tell a line that comes after a pause from an answer to the next call.
	r := start(t, liteSpec(t, "read; out Traceback\n  line 1\nKeyError; read; last \"fine\"; echo"))
	_, err := r.callTool()
	wantKind(t, err, protocol.InvalidJSON)
	if got, err := r.request(protocol.MethodToolsCall, `{"name":"echo","arguments":{}}`); err != nil ||
		protocol.ToolResult(got).Text() != "fine" {
		t.Errorf("the next call: %s, %v", got, err)
	}
}
