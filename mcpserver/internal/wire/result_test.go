package wire

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/exthost/exthost/protocol"
)

func TestComplete(t *testing.T) {
	for _, test := range []struct{ method, result, want string }{
		{"tools/call", `{}`, `{"resultType":"complete"}`},
		{"tools/call", ` { "a":1 }`, `{"resultType":"complete", "a":1 }`},
		{"tools/call", `{"resultType":"complete","a":1}`, `{"resultType":"complete","a":1}`},
		{"tools/call", `{"resultType":"input_required"}`, `{"resultType":"input_required"}`},
		{"tools/call", `{"content":[{"resultType":"x"}]}`, `{"resultType":"complete","content":[{"resultType":"x"}]}`},
		{"tools/list", `{"tools":[]}`, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[]}`},
		{"tools/list", `{"cacheScope":"public","tools":[]}`,
			`{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[]}`},
		{"resources/read", `{"ttlMs":5,"resultType":"complete"}`,
			`{"cacheScope":"private","ttlMs":5,"resultType":"complete"}`},
		{"resources/read", `{"resultType":"input_required"}`, `{"resultType":"input_required"}`},
		{"tools/call", `null`, `null`},
		{"tools/call", `[{}]`, `[{}]`},
		{"tools/call", ``, ``},
	} {
		if got := Complete(test.method, json.RawMessage(test.result)); string(got) != test.want {
			t.Errorf("%s %s\n got %s\nwant %s", test.method, test.result, got, test.want)
		}
	}
}

func TestEncodeError(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{MethodNotFound("x"), `{"code":-32601,"message":"method x is not served here"}`},
		{errors.New("a \"b\""), `{"code":-32603,"message":"a \"b\""}`},
		{protocol.Errorf(protocol.BreakerOpen, "later"),
			`{"code":-32017,"message":"later (breaker_open)","data":{"kind":"breaker_open"}}`},
		{&protocol.Error{Kind: protocol.ExtensionError, Message: "own", Data: json.RawMessage(`{"z": 1e400,"a":1}`)},
			`{"code":-32603,"message":"own","data":{"z": 1e400,"a":1}}`},
	} {
		if got := encodeError(test.err); string(got) != test.want {
			t.Errorf("%v\n got %s\nwant %s", test.err, got, test.want)
		}
	}
}

func TestToolFailureWithBrokenDetails(t *testing.T) {
	err := &protocol.Error{Kind: protocol.Rejected, Message: "no", Data: json.RawMessage(`{`)}
	if got := ToolFailure(protocol.MethodToolsCall, err); !json.Valid(got) {
		t.Errorf("%s", got)
	}
	if got := ToolFailure("prompts/get", err); got != nil {
		t.Errorf("another method: %s", got)
	}
}
