package mcppolicy_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/mcppolicy"
	"github.com/exthost/exthost/protocol"
)

// server is a plugin server with scripted answers that records its requests.
type server struct {
	config, configs string                   // the texts of both answers
	answer          func(hook string) string // the text of invoke_hook's answer
	result          string                   // a whole result instead of the above
	err             error                    // an error instead of the above
	heard           []string                 // the arguments of invoke_hook
}

func (s *server) Call(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if method != "tools/call" {
		return nil, errors.New("called " + method)
	}
	var p struct {
		Name      string
		Arguments json.RawMessage
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	if s.err != nil || s.result != "" {
		return json.RawMessage(s.result), s.err
	}
	text := map[string]string{"get_plugin_config": s.config, "get_plugin_configs": s.configs}[p.Name]
	if p.Name == "invoke_hook" {
		s.heard = append(s.heard, string(p.Arguments))
		var a struct {
			Hook string `json:"hook_type"`
		}
		if err := json.Unmarshal(p.Arguments, &a); err != nil {
			return nil, err
		}
		text = s.answer(a.Hook)
	}
	return blocks(text), nil
}

func blocks(texts ...string) json.RawMessage {
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	list := []block{{Type: "image"}}
	for _, text := range texts {
		list = append(list, block{"text", text})
	}
	b, _ := json.Marshal(map[string]any{"content": list})
	return b
}

const allHooks = `["tool_pre_invoke","tool_post_invoke","prompt_pre_fetch","prompt_post_fetch","resource_pre_fetch","resource_post_fetch","http_pre_request"]`

// open returns a policy whose plugin answers each hook with text.
func open(t *testing.T, s *server, text string) *mcppolicy.Policy {
	t.Helper()
	s.config = `{"name":"guard","kind":"a.B","hooks":` + allHooks + `,"mode":"sequential"}`
	s.answer = func(string) string { return text }
	p, err := mcppolicy.Open(t.Context(), governance.Spec{Name: "guard", Category: governance.Content}, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestOpen(t *testing.T) {
	for name, tt := range map[string]struct {
		s     server
		hooks []string
		kind  protocol.Kind
		want  string
	}{
		"as the server says": {s: server{config: `{"name":"guard","hooks":["tool_pre_invoke","http_pre_request"]}`}},
		"as the operator says": {
			s:     server{config: `{"name":"guard","hooks":["tool_pre_invoke","tool_post_invoke"]}`},
			hooks: []string{"tool_post_invoke"},
		},
		"name in another case": {s: server{config: `{"name":"Guard","hooks":["tool_pre_invoke"]}`}},
		"no such plugin": {
			s:    server{config: `{}`, configs: `[{"name":"gard"},{"name":"other"}]`},
			kind: protocol.HandshakeInvalid,
			want: `the server has no plugin "guard" (gard?); it has: gard, other`,
		},
		"no such plugin, null": {
			s:    server{config: `null`, configs: `{"name":"other"}`},
			kind: protocol.HandshakeInvalid,
			want: `no plugin "guard"; it has: other`,
		},
		"disabled": {
			s:    server{config: `{"name":"guard","mode":"disabled","hooks":["tool_pre_invoke"]}`},
			kind: protocol.HandshakeInvalid,
			want: "is disabled where its server runs",
		},
		"no hook of ours": {
			s:    server{config: `{"name":"guard","hooks":["http_pre_request"]}`},
			kind: protocol.HandshakeInvalid,
			want: "it would never be asked; it serves: http_pre_request",
		},
		"a hook we never invoke": {
			s:     server{config: `{"name":"guard","hooks":["tool_pre_invoke","http_pre_request"]}`},
			hooks: []string{"http_pre_request"},
			kind:  protocol.ConfigInvalid,
			want:  "http_pre_request is never invoked; there are prompt_post_fetch",
		},
		"a hook it lacks": {
			s:     server{config: `{"name":"guard","hooks":["tool_pre_invoke"]}`},
			hooks: []string{"tool_post_invoke"},
			kind:  protocol.ConfigInvalid,
			want:  "does not serve tool_post_invoke; it serves tool_pre_invoke",
		},
		"not JSON": {
			s:    server{config: `Plugin server not initialized`},
			kind: protocol.HandshakeInvalid,
			want: "its answer to get_plugin_config cannot be read",
		},
		"no plugin server": {
			s:    server{result: `{"isError":true,"content":[{"type":"text","text":"Unknown tool"}]}`},
			kind: protocol.ExtensionError,
			want: "get_plugin_config failed: Unknown tool",
		},
		"no tool result": {
			s:    server{result: `{"contents":1}`},
			kind: protocol.InvalidResponse,
			want: "the result of get_plugin_config has no content",
		},
		"gone": {
			s:    server{err: protocol.Errorf(protocol.ChildExited, "gone")},
			kind: protocol.ChildExited,
			want: "gone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mcppolicy.Open(t.Context(), governance.Spec{Name: "guard", Hooks: tt.hooks}, &tt.s)
			if protocol.KindOf(err) != tt.kind || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %s: … %s", err, tt.kind, tt.want)
			}
		})
	}
}

// Exchanges, one per hook and some without a hook.
var (
	toolCall = governance.Exchange{
		ID:        "d1",
		Method:    "tools/call",
		Caller:    "ann",
		Extension: "files",
		Tool:      "ext_files_read",
		ToChild:   true,
		Request:   json.RawMessage(`{"name":"read","arguments":{"n":12345678901234567890},"later":1}`),
		Response:  json.RawMessage(`{"content":[{"type":"text","text":"secret"}]}`),
	}
	bareCall = governance.Exchange{
		Method:  "tools/call",
		Tool:    "t",
		ToChild: true,
		Request: json.RawMessage(`{"name":"t"}`),
	}
	promptGet = governance.Exchange{
		ID:       "d1",
		Method:   "prompts/get",
		ToChild:  true,
		Request:  json.RawMessage(`{"name":"greet","arguments":{"who":"x"}}`),
		Response: json.RawMessage(`{"messages":[]}`),
	}
	read = governance.Exchange{
		ID:      "d1",
		Method:  "resources/read",
		ToChild: true,
		Request: json.RawMessage(`{"uri":"file:///a"}`),
		Response: json.RawMessage(
			`{"contents":[{"uri":"file:///a","mimeType":"text/plain","text":"one","_meta":{"n":1.50}},{"uri":"file:///b","blob":"AAAA"}],"later":1}`),
	}
	list   = governance.Exchange{ID: "d1", Method: "tools/list", Response: json.RawMessage(`{"tools":[]}`)}
	failed = governance.Exchange{
		ID:       "d1",
		Method:   "tools/call",
		Tool:     "t",
		Response: json.RawMessage(`{"code":-1,"message":"no /secret","data":{"path":"/secret"}}`),
		Failure:  &protocol.Error{Kind: protocol.ExtensionError, Message: "no /secret"},
	}
	refused = governance.Exchange{
		ID:      "d1",
		Method:  "tools/call",
		Tool:    "t",
		Failure: &protocol.Error{Kind: protocol.Rejected, Message: "no"},
	}
)

const fresh = `,"context":{"state":{},"global_context":{"request_id":"d1","user":null,"tenant_id":null,"server_id":null,"state":{},"metadata":{}},"metadata":{}}}`

// TestPayloads compares the payloads with the exchange.
func TestPayloads(t *testing.T) {
	for name, tt := range map[string]struct {
		flow governance.Flow
		x    governance.Exchange
		want []string
	}{
		"tool, pre": {governance.Request, toolCall,
			[]string{`{"hook_type":"tool_pre_invoke","plugin_name":"guard","payload":{"name":"ext_files_read","args":{"n":12345678901234567890}},` +
				`"context":{"state":{},"global_context":{"request_id":"d1","user":"ann","tenant_id":null,"server_id":"files","state":{},"metadata":{}},"metadata":{}}}`}},
		"of another node": {governance.Request,
			governance.Exchange{
				Method:  "tools/call",
				Tool:    "t",
				Node:    "web",
				ToChild: true,
				Request: json.RawMessage(`{"name":"t"}`),
			}, []string{`{"hook_type":"tool_pre_invoke","plugin_name":"guard","payload":{"name":"t","args":{}}` +
				strings.Replace(strings.Replace(fresh, "d1", "", 1), `"metadata":{}`, `"metadata":{"node":"web"}`, 1)}},
		"tool, no arguments": {governance.Request, bareCall,
			[]string{
				`{"hook_type":"tool_pre_invoke","plugin_name":"guard","payload":{"name":"t","args":{}}` +
					strings.Replace(fresh, "d1", "", 1),
			}},
		"tool, post": {governance.Response, read0(toolCall),
			[]string{
				`{"hook_type":"tool_post_invoke","plugin_name":"guard","payload":{"name":"ext_files_read","result":{"content":[{"type":"text","text":"secret"}]}}` + fresh,
			}},
		"tool, refused": {governance.Response, refused,
			[]string{`{"hook_type":"tool_post_invoke","plugin_name":"guard","payload":{"name":"t","result":{"content":[{"type":"text","text":"no (rejected)"}],` +
				`"isError":true,"structuredContent":{"kind":"rejected"}}}` + fresh}},
		"prompt, pre": {governance.Request, promptGet,
			[]string{
				`{"hook_type":"prompt_pre_fetch","plugin_name":"guard","payload":{"prompt_id":"greet","args":{"who":"x"}}` + fresh,
			}},
		"prompt, post": {governance.Response, promptGet,
			[]string{
				`{"hook_type":"prompt_post_fetch","plugin_name":"guard","payload":{"prompt_id":"greet","result":{"messages":[]}}` + fresh,
			}},
		"resource, pre": {governance.Request, read,
			[]string{
				`{"hook_type":"resource_pre_fetch","plugin_name":"guard","payload":{"uri":"file:///a","metadata":{}}` +
					fresh,
			}},
		"resource, post": {governance.Response, read, []string{
			`{"hook_type":"resource_post_fetch","plugin_name":"guard","payload":{"uri":"file:///a","content":{"uri":"file:///a","mimeType":"text/plain","text":"one","_meta":{"n":1.50},"mime_type":"text/plain","type":"resource"}}` + fresh,
			`{"hook_type":"resource_post_fetch","plugin_name":"guard","payload":{"uri":"file:///a","content":{"uri":"file:///b","blob":"AAAA","type":"resource"}}` + fresh}},
		"a method without a hook": {governance.Response, list, nil},
		"a prompt that failed": {governance.Response,
			governance.Exchange{Method: "prompts/get", Failure: refused.Failure}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{}
			d, err := open(t, s, `{"plugin_name":"guard","result":{"continue_processing":true}}`).Decide(t.Context(),
				tt.flow, &tt.x)
			if err != nil || d.Action != governance.Allow {
				t.Errorf("decision: %+v, %v", d, err)
			}
			if diff := cmp.Diff(tt.want, s.heard); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// read0 is x without caller and extension.
func read0(x governance.Exchange) governance.Exchange {
	x.Caller, x.Extension = "", ""
	return x
}

func TestDecisions(t *testing.T) {
	modify := func(json_ string) governance.Decision {
		return governance.Decision{Action: governance.Modify, JSON: json.RawMessage(json_)}
	}
	violation := `{"reason":"PII","description":"an e-mail address","code":"PII_DETECTED","details":{"n":1.50},"http_headers":{"retry-after":"7"}}`
	const request, response = governance.Request, governance.Response
	for _, tt := range []struct {
		name   string
		flow   governance.Flow
		x      governance.Exchange
		answer string
		want   governance.Decision
		kind   protocol.Kind
		text   string
	}{
		{name: "continue by default", flow: request, x: toolCall, answer: `{"result":{}}`},
		{
			name:   "a violation that does not stop",
			flow:   request,
			x:      toolCall,
			answer: `{"result":{"continue_processing":true,"violation":` + violation + `}}`,
		},
		{name: "a violation", flow: request, x: toolCall,
			answer: `{"result":{"continue_processing":false,"modified_payload":{"name":"x"},"violation":` + violation +
				`}}`,
			want: governance.Decision{
				Action:     governance.Deny,
				Code:       "PII_DETECTED",
				Reason:     "PII: an e-mail address",
				Data:       json.RawMessage(`{"n":1.50}`),
				RetryAfter: 7 * time.Second,
			}},
		{name: "stopped without a violation", flow: response, x: toolCall,
			answer: `{"result":{"continue_processing":false,"violation":null,"retry_delay_ms":1500}}`,
			want:   governance.Decision{Action: governance.Deny, RetryAfter: 1500 * time.Millisecond}},
		{name: "a violation of no known shape", flow: request, x: toolCall,
			answer: `{"result":{"continue_processing":false,"violation":{"code":5}}}`,
			want:   governance.Decision{Action: governance.Deny}},
		{name: "args", flow: request, x: toolCall,
			answer: "{\"result\":{\"modified_payload\":{\"name\":\"ext_files_read\",\"args\":{\n  \"n\": " +
				"12345678901234567891\n},\"headers\":null}}}",
			want: modify(`{"name":"read","arguments":{"n":12345678901234567891},"later":1}`)},
		{
			name:   "args that were none",
			flow:   request,
			x:      bareCall,
			answer: `{"result":{"modified_payload":{"name":"t","args":{"a":1}}}}`,
			want:   modify(`{"name":"t","arguments":{"a":1}}`),
		},
		{
			name:   "the same args",
			flow:   request,
			x:      toolCall,
			answer: `{"result":{"modified_payload":{"name":"ext_files_read","args":{"n":12345678901234567890}}}}`,
		},
		{
			name:   "no args",
			flow:   request,
			x:      toolCall,
			answer: `{"result":{"modified_payload":{"name":"ext_files_read","args":null}}}`,
		},
		{
			name:   "another tool",
			flow:   request,
			x:      toolCall,
			answer: `{"result":{"modified_payload":{"name":"ext_shell_run","args":{}}}}`,
			kind:   protocol.InvalidResponse,
			text:   `changed the name to "ext_shell_run"`,
		},
		{
			name:   "args that are a list",
			flow:   request,
			x:      toolCall,
			answer: `{"result":{"modified_payload":{"args":[1]}}}`,
			kind:   protocol.InvalidResponse,
			text:   "its args: not a JSON object",
		},
		{
			name:   "a result",
			flow:   response,
			x:      toolCall,
			answer: `{"result":{"modified_payload":{"name":"ext_files_read","result":{"content":[]}}}}`,
			want:   modify(`{"content":[]}`),
		},
		{
			name:   "a result that is a text",
			flow:   response,
			x:      toolCall,
			answer: `{"result":{"modified_payload":{"result":"x"}}}`,
			kind:   protocol.InvalidResponse,
			text:   "its result: not a JSON object",
		},
		{name: "an extension's own error", flow: response, x: failed,
			answer: `{"result":{"modified_payload":{"name":"t","result":{"content":[{"type":"text","text":"no ***"}],"structuredContent":{"path":"***"}}}}}`,
			want:   modify(`{"code":-1,"message":"no ***","data":{"path":"***"}}`)},
		{name: "its data taken out", flow: response, x: failed,
			answer: `{"result":{"modified_payload":{"name":"t","result":{"content":[{"type":"text","text":"no ***"}]}}}}`,
			want:   modify(`{"code":-1,"message":"no ***"}`)},
		{
			name:   "a prompt's args",
			flow:   request,
			x:      promptGet,
			answer: `{"result":{"modified_payload":{"prompt_id":"greet","args":{"who":"y"}}}}`,
			want:   modify(`{"name":"greet","arguments":{"who":"y"}}`),
		},
		{
			name:   "a prompt's result",
			flow:   response,
			x:      promptGet,
			answer: `{"result":{"modified_payload":{"prompt_id":"greet","result":{"messages":[1]}}}}`,
			want:   modify(`{"messages":[1]}`),
		},
		{
			name:   "a uri",
			flow:   request,
			x:      read,
			answer: `{"result":{"modified_payload":{"uri":"file:///c","metadata":{}}}}`,
			want:   modify(`{"uri":"file:///c"}`),
		},
		{
			name:   "a uri that is none",
			flow:   request,
			x:      read,
			answer: `{"result":{"modified_payload":{"uri":5}}}`,
			kind:   protocol.InvalidResponse,
			text:   "its uri is not a string",
		},
		{name: "contents", flow: response, x: read,
			answer: `{"result":{"modified_payload":{"uri":"u","content":{"type":"resource","uri":"x","mime_type":null,"text":"***","blob":null}}}}`,
			want:   modify(`{"contents":[{"uri":"file:///a","mimeType":"text/plain","text":"***","_meta":{"n":1.50}},{"uri":"file:///b","text":"***"}],"later":1}`)},
		{
			name:   "content that is a text",
			flow:   response,
			x:      read,
			answer: `{"result":{"modified_payload":{"content":"***"}}}`,
			kind:   protocol.InvalidResponse,
			text:   "its content: not a JSON object",
		},
		{
			name:   "text that is none",
			flow:   response,
			x:      read,
			answer: `{"result":{"modified_payload":{"content":{"text":5}}}}`,
			kind:   protocol.InvalidResponse,
			text:   "the text of its content is not a string",
		},

		{
			name:   "an error",
			flow:   request,
			x:      toolCall,
			answer: `{"error":{"message":"no model","code":"E","plugin_name":"guard","details":{"a":1}}}`,
			kind:   protocol.ExtensionError,
			text:   "tool_pre_invoke failed: no model",
		},
		{
			name:   "an error beside a result",
			flow:   request,
			x:      toolCall,
			answer: `{"result":{},"error":{"message":"no model"}}`,
			kind:   protocol.ExtensionError,
			text:   "no model",
		},
		{name: "a violation beside what cannot be read", flow: request, x: toolCall,
			answer: `{"result":{"continue_processing":false},"error":{"message":"m","code":5}}`,
			want:   governance.Decision{Action: governance.Deny}},
		{
			name:   "neither",
			flow:   request,
			x:      toolCall,
			answer: `{"plugin_name":"guard"}`,
			kind:   protocol.InvalidResponse,
			text:   "neither a result nor an error",
		},
		{
			name:   "null",
			flow:   request,
			x:      toolCall,
			answer: `{"result":null}`,
			kind:   protocol.InvalidResponse,
			text:   "neither a result nor an error",
		},
		{
			name:   "a result that is none",
			flow:   request,
			x:      toolCall,
			answer: `{"result":true}`,
			kind:   protocol.InvalidResponse,
			text:   "cannot be read",
		},
		{
			name:   "no yes and no no",
			flow:   request,
			x:      toolCall,
			answer: `{"result":{"continue_processing":"maybe"}}`,
			kind:   protocol.InvalidResponse,
			text:   "cannot be read",
		},
		{
			name:   "no JSON",
			flow:   request,
			x:      toolCall,
			answer: `all right`,
			kind:   protocol.InvalidResponse,
			text:   "cannot be read",
		},
		{
			name:   "nothing",
			flow:   request,
			x:      toolCall,
			answer: ``,
			kind:   protocol.InvalidResponse,
			text:   "neither a result nor an error",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.x
			d, err := open(t, &server{}, tt.answer).Decide(t.Context(), tt.flow, &tt.x)
			if diff := cmp.Diff(tt.want, d); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if protocol.KindOf(err) != tt.kind || err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want %s: … %s", err, tt.kind, tt.text)
			}
			if diff := cmp.Diff(before, tt.x, cmp.AllowUnexported(protocol.Error{})); diff != "" {
				t.Errorf("it changed the exchange (-before +after):\n%s", diff)
			}
		})
	}
}

// The second content of a resource may be denied.
func TestOneContentStopsAll(t *testing.T) {
	s := &server{}
	p := open(t, s, "")
	s.answer = func(string) string {
		if len(s.heard) == 2 {
			return `{"result":{"continue_processing":false,"violation":{"reason":"r","description":"r","code":"c"}}}`
		}
		return `{"result":{"modified_payload":{"content":{"text":"***"}}}}`
	}
	d, err := p.Decide(t.Context(), governance.Response, &read)
	if err != nil || d.Action != governance.Deny || d.Reason != "r" || d.JSON != nil {
		t.Errorf("%+v, %v", d, err)
	}
}

// The context that a plugin returns in the request flow is sent in the response flow of the
// same exchange only. The plugin cannot change the caller.
func TestContextSurvivesTheCall(t *testing.T) {
	s := &server{}
	p := open(t, s, `{"result":{},"context":{"state":{"t0":12345678901234567890},"metadata":{"m":1},"global_context":{"request_id":"forged","user":"root","state":{"g":1},"metadata":{"x":1}}}}`)
	other := toolCall
	other.ID = "d2"
	for _, step := range []struct {
		flow governance.Flow
		x    *governance.Exchange
		want string
	}{
		{governance.Request, &toolCall, `{"state":{},`},
		{governance.Response, &other, `{"state":{},`},
		{governance.Response, &toolCall,
			`{"state":{"t0":12345678901234567890},"global_context":{"request_id":"d1","user":"ann","tenant_id":null,"server_id":"files","state":{"g":1},"metadata":{}},"metadata":{"m":1}}`},
		{governance.Response, &toolCall, `{"state":{},`}, // the context is used once
	} {
		if _, err := p.Decide(t.Context(), step.flow, step.x); err != nil {
			t.Fatal(err)
		}
		if heard := s.heard[len(s.heard)-1]; !strings.Contains(heard, `"context":`+step.want) {
			t.Errorf("%s of %s: %s\nwant context %s", step.flow, step.x.ID, heard, step.want)
		}
	}
}

// Structured content is used when there is no text, and isError is an error.
func TestResults(t *testing.T) {
	s := &server{}
	p := open(t, s, "")
	for _, tt := range []struct {
		result string
		kind   protocol.Kind
	}{
		{`{"content":[],"structuredContent":{"result":{"continue_processing":true}}}`, ""},
		{`{"content":[{"type":"text","text":"{\"plugin_name\":\"guard\"}"},{"type":"text","text":"{\"result\":{}}"}]}`,
			""},
		{`{"content":[{"type":"text","text":"{\"result\":{}}"}],"isError":true}`, protocol.ExtensionError},
		{`{"content":[]}`, protocol.InvalidResponse},
		{`null`, protocol.InvalidResponse},
	} {
		s.result = tt.result
		d, err := p.Decide(t.Context(), governance.Request, &toolCall)
		if protocol.KindOf(err) != tt.kind || d.Action != governance.Allow {
			t.Errorf("%s: %+v, %v; want %s", tt.result, d, err, tt.kind)
		}
	}
}
