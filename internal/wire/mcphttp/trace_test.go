package mcphttp

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestJoinTrace(t *testing.T) {
	for _, tt := range []struct{ parent, state, params, want string }{
		{"", "", `{"name":"x"}`, `{"name":"x"}`},
		{parent, "", ``, `{"_meta":{"traceparent":"` + parent + `"}}`},
		{parent, "a=1", `{"n":12345678901234567890}`,
			`{"n":12345678901234567890,"_meta":{"traceparent":"` + parent + `","tracestate":"a=1"}}`},
		{parent, "", `{"_meta":{"progressToken":1},"n":1}`,
			`{"_meta":{"progressToken":1,"traceparent":"` + parent + `"},"n":1}`},
		{parent, "", `{"_meta":{"traceparent":"mine"}}`, `{"_meta":{"traceparent":"mine"}}`},
		{parent, "", `{"_meta":7}`, `{"_meta":7}`},
		{parent + `","x":"`, "", `{}`, `{}`},
		{strings.ToUpper(parent), "", `{}`, `{}`},
		{parent, strings.Repeat("a", 513), `{}`, `{"_meta":{"traceparent":"` + parent + `"}}`},
	} {
		h := http.Header{}
		h.Set("Traceparent", tt.parent)
		h.Set("Tracestate", tt.state)
		m := jsonrpc.Message{Method: "tools/call", Params: json.RawMessage(tt.params)}
		if JoinTrace(h, &m); string(m.Params) != tt.want {
			t.Errorf("%s with %s: %s, want %s", tt.params, tt.parent, m.Params, tt.want)
		}
	}
	answer := jsonrpc.Message{Result: json.RawMessage("{}")}
	if JoinTrace(http.Header{"Traceparent": {parent}}, &answer); answer.Params != nil {
		t.Errorf("an answer has params: %s", answer.Params)
	}
}

func TestSetTrace(t *testing.T) {
	for _, tt := range []struct{ params, parent, state string }{
		{``, "", ""}, {`{}`, "", ""}, {`{"_meta":7}`, "", ""},
		{`{"_meta":{"traceparent":"` + parent + `"}}`, parent, ""},
		{`{"_meta":{"traceparent":"` + parent + `","tracestate":"a=1,b=2"}}`, parent, "a=1,b=2"},
		{`{"_meta":{"traceparent":"` + parent + `","tracestate":"a\r\nEvil: 1"}}`, parent, ""},
		{`{"_meta":{"traceparent":"` + parent + `\r\nEvil: 1"}}`, "", ""},
	} {
		h := http.Header{}
		SetTrace(h, json.RawMessage(tt.params))
		if h.Get("Traceparent") != tt.parent || h.Get("Tracestate") != tt.state {
			t.Errorf("%s: %v", tt.params, h)
		}
	}
}
