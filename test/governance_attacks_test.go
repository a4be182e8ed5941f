package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// victim is a call of the client laptop that waits for an approval, and is asked for it in the client.
type victim struct {
	*askingHost
	modern bool
	header http.Header // of laptop, with its session
	heard  chan string
	id     string // of the question: a JSON-RPC id, or a key of the input requests
	state  string // the requestState of a modern call
	q      approval.Request
	calls  sync.WaitGroup // of others, which end once the operator has denied them
}

const asksMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`

// bearer returns the headers of a client; "" is one without a token.
func (a *askingHost) bearer(name string) http.Header {
	token, known := a.token[name]
	if !known {
		token = name
	}
	if token == "" {
		return http.Header{}
	}
	return http.Header{"Authorization": {"Bearer " + token}}
}

// session opens a legacy session of a client, and returns its headers.
func (a *askingHost) session(name string) http.Header {
	h := a.bearer(name)
	heard := make(chan string, 1)
	r := post(a.t, a.url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"raw","version":"1"}}}`,
		h, heard)
	receive(a.t, heard)
	h.Set("Mcp-Session-Id", r.Header.Get("Mcp-Session-Id"))
	return h
}

// modernHeader returns h for a modern request.
func modernHeader(h http.Header, method, name string) http.Header {
	h = h.Clone()
	h.Set("Mcp-Protocol-Version", "2026-07-28")
	h.Set("Mcp-Method", method)
	h.Set("Mcp-Name", name)
	return h
}

func greetFrame(members string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ext_x_greet","arguments":{"name":"Ada"}` +
		members + `}}`
}

// newVictim makes a call that waits.
func (a *askingHost) newVictim(modern bool) *victim {
	v := &victim{askingHost: a, modern: modern, heard: make(chan string, 100)}
	if modern {
		v.header = a.bearer("laptop")
		post(a.t, a.url, greetFrame(`,`+asksMeta), modernHeader(v.header, "tools/call", "ext_x_greet"), v.heard)
		result := rawjson.Get(json.RawMessage(receive(a.t, v.heard)), "result")
		v.state, _ = rawjson.Text(rawjson.Get(result, "requestState"))
		for key := range rawjson.Members(rawjson.Get(result, "inputRequests")) {
			v.id = key
		}
	} else {
		v.header = a.session("laptop")
		post(a.t, a.url, greetFrame(""), v.header, v.heard)
		v.id = string(rawjson.Get(json.RawMessage(receive(a.t, v.heard)), "id"))
	}
	v.q = a.waiting(1)[0]
	return v
}

// send posts a frame, and returns the status of the response and its body or first event.
func (v *victim) send(h http.Header, path, frame string) string {
	heard := make(chan string, 10)
	r := post(v.t, strings.TrimSuffix(v.url, "/mcp")+path, frame, h, heard)
	if r == nil {
		return ""
	}
	return fmt.Sprint(r.StatusCode)
}

// says answers the question in the session of h, whose id is id.
func (v *victim) says(h http.Header, id, result string) {
	v.send(h, "/mcp", `{"jsonrpc":"2.0","id":`+id+`,"result":`+result+`}`)
}

// returns makes the modern call of h again with answers, and does not wait for its outcome.
func (v *victim) returns(h http.Header, state, answers, frame string) {
	if frame == "" {
		frame = greetFrame(`,` + asksMeta)
	}
	if state != "" {
		answers = `"requestState":` + string(rawjson.Quote(state)) + `,"inputResponses":{` + answers + `}`
	}
	frame = strings.Replace(frame, `"_meta"`, answers+`,"_meta"`, 1)
	method, _ := rawjson.Text(rawjson.Get(json.RawMessage(frame), "method"))
	params := rawjson.Get(json.RawMessage(frame), "params")
	name, _ := rawjson.Text(rawjson.Get(params, "name"))
	if uri, ok := rawjson.Text(rawjson.Get(params, "uri")); ok {
		name = uri
	}
	v.send(modernHeader(h, method, name), "/mcp", frame)
}

const accepted = `{"action":"accept"}`

// yes are the input responses that accept.
func (v *victim) yes() string { return `"` + v.id + `":` + accepted }

// refuses has the operator deny what waits, and returns what the victim is told.
func (v *victim) refuses() string {
	for _, q := range v.Admin().ApprovalRequests() {
		if err := v.Admin().Deny(q.ID, "ann", ""); err != nil {
			v.t.Errorf("the operator is too late: %v", err)
		}
	}
	for {
		if v.modern {
			again := strings.Replace(greetFrame(`,`+asksMeta), `"_meta"`, `"requestState":`+string(rawjson.Quote(v.state))+
				`,"inputResponses":{},"_meta"`, 1)
			post(v.t, v.url, again, modernHeader(v.header, "tools/call", "ext_x_greet"), v.heard)
		}
		frame := json.RawMessage(receive(v.t, v.heard))
		for rawjson.Get(frame, "method") != nil {
			frame = json.RawMessage(receive(v.t, v.heard))
		}
		state, asked := rawjson.Text(rawjson.Get(rawjson.Get(frame, "result"), "requestState"))
		if !asked {
			return string(frame)
		}
		v.state = state // the operator's answer has not reached the call yet
	}
}

// operatorAPI posts to the operator's API with the headers h.
func (v *victim) operatorAPI(method, path string, h http.Header) {
	r, err := http.NewRequestWithContext(hosttest.Deadline(v.t), method, strings.TrimSuffix(v.url, "/mcp")+path,
		strings.NewReader(`{}`))
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header = h.Clone()
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if response.StatusCode < 400 {
		v.t.Errorf("%s %s is answered %s", method, path, response.Status)
	}
}

// approvalAttacks try to have a call carried out without the answer of a person who may give it.
var approvalAttacks = []struct {
	name   string
	modern bool
	try    func(v *victim)
}{
	// the client's own answers that say no yes
	{"upper case", false, func(v *victim) { v.says(v.header, v.id, `{"action":"ACCEPT"}`) }},
	{"a Cyrillic letter", false, func(v *victim) { v.says(v.header, v.id, `{"action":"аccept"}`) }},
	{"a hidden character", false, func(v *victim) { v.says(v.header, v.id, `{"action":"accept\u200b"}`) }},
	{"a NUL", false, func(v *victim) { v.says(v.header, v.id, `{"action":"accept\u0000"}`) }},
	{"no first, then yes", false, func(v *victim) { v.says(v.header, v.id, `{"action":"decline","action":"accept"}`) }},
	{"two spellings", false, func(v *victim) { v.says(v.header, v.id, `{"action":"accept","Action":"decline"}`) }},
	{"content that nobody asked for", false, func(v *victim) {
		v.says(v.header, v.id, `{"action":"accept","content":{"approved":true}}`)
	}},
	{"a text", false, func(v *victim) { v.says(v.header, v.id, `"accept"`) }},
	{"a list", false, func(v *victim) { v.says(v.header, v.id, `["accept"]`) }},
	{"true", false, func(v *victim) { v.says(v.header, v.id, `{"action":true}`) }},
	{"nothing", false, func(v *victim) { v.says(v.header, v.id, `{}`) }},
	{"another result inside", false, func(v *victim) { v.says(v.header, v.id, `{"result":`+accepted+`}`) }},
	{"a megabyte", false, func(v *victim) {
		v.says(v.header, v.id, `{"action":"accept","pad":"`+strings.Repeat("x", 1<<20)+`"}`)
	}},
	{"deep nesting", false, func(v *victim) {
		v.says(v.header, v.id, `{"action":"accept","pad":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`}`)
	}},
	{"an error beside the yes", false, func(v *victim) {
		v.send(v.header, "/mcp",
			`{"jsonrpc":"2.0","id":`+v.id+`,"error":{"code":1,"message":"m"},"result":`+accepted+`}`)
	}},

	// other ids
	{"the next id", false, func(v *victim) { v.says(v.header, v.id+"1", accepted) }},
	{"the id as a text", false, func(v *victim) { v.says(v.header, `"`+v.id+`"`, accepted) }},
	{"the id as a fraction", false, func(v *victim) { v.says(v.header, v.id+".0", accepted) }},
	{"the id of the call", false, func(v *victim) { v.says(v.header, "7", accepted) }},
	{"no id", false, func(v *victim) { v.says(v.header, "null", accepted) }},
	{"the id that operators use", false, func(v *victim) { v.says(v.header, `"`+v.q.ID+`"`, accepted) }},
	{"a batch", false, func(v *victim) {
		v.send(v.header, "/mcp", `[{"jsonrpc":"2.0","id":`+v.id+`,"result":`+accepted+`}]`)
	}},

	// other messages of the client
	{"a notification", false, func(v *victim) {
		v.send(v.header, "/mcp",
			`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":`+v.id+`}}`)
	}},
	{"a request", false, func(v *victim) {
		v.send(v.header, "/mcp", `{"jsonrpc":"2.0","id":8,"method":"elicitation/create","params":`+accepted+`}`)
	}},
	{"an operation of operators", false, func(v *victim) {
		v.send(v.header, "/mcp",
			`{"jsonrpc":"2.0","id":8,"method":"exthost/approvals/approve","params":{"id":"`+v.q.ID+`"}}`)
	}},

	// others
	{"another client in its session", false, func(v *victim) { v.says(v.session("eve"), v.id, accepted) }},
	{"another client in the victim's session", false, func(v *victim) {
		h := v.bearer("eve")
		h.Set("Mcp-Session-Id", v.header.Get("Mcp-Session-Id"))
		v.says(h, v.id, accepted)
	}},
	{"another session of the victim", false, func(v *victim) { v.says(v.session("laptop"), v.id, accepted) }},
	{"nobody in the victim's session", false, func(v *victim) {
		v.says(http.Header{"Mcp-Session-Id": v.header["Mcp-Session-Id"]}, v.id, accepted)
	}},
	{"a guessed token", false, func(v *victim) {
		h := v.bearer("guess")
		h.Set("Mcp-Session-Id", v.header.Get("Mcp-Session-Id"))
		v.says(h, v.id, accepted)
	}},
	{"the operator's token in the victim's session", false, func(v *victim) {
		h := v.bearer("the-operators-own-token")
		h.Set("Mcp-Session-Id", v.header.Get("Mcp-Session-Id"))
		v.says(h, v.id, accepted)
	}},
	{"at the endpoint of the extension", false, func(v *victim) {
		v.send(v.header, "/x/mcp", `{"jsonrpc":"2.0","id":`+v.id+`,"result":`+accepted+`}`)
	}},
	{"a tool that another client calls with the same arguments", false, func(v *victim) {
		eve := v.session("eve")
		v.calls.Go(func() { v.send(eve, "/mcp", greetFrame("")) }) // until the operator denies it
		v.waiting(2)
	}},
	{"the operators' API with the token of a client", false, func(v *victim) {
		v.operatorAPI(http.MethodPost, "/api/v1/approvals/"+v.q.ID+"/approve", v.bearer("laptop"))
	}},
	{"the operators' API without a token", false, func(v *victim) {
		v.operatorAPI(http.MethodPost, "/api/v1/approvals/"+v.q.ID+"/approve", http.Header{})
	}},
	{"the operators' API by GET", false, func(v *victim) {
		v.operatorAPI(http.MethodGet, "/api/v1/approvals/"+v.q.ID+"/approve", v.bearer("the-operators-own-token"))
	}},
	{"the operators' API with another case of the id", false, func(v *victim) {
		v.operatorAPI(http.MethodPost, "/api/v1/approvals/"+strings.ToUpper(v.q.ID)+"/approve",
			v.bearer("the-operators-own-token"))
	}},
	{"the operators' API with a node before the id", false, func(v *victim) {
		v.operatorAPI(http.MethodPost, "/api/v1/approvals/gpu1%2f"+v.q.ID+"/approve",
			v.bearer("the-operators-own-token"))
	}},
	{"an extension that asks the same", false, func(v *victim) { // its question is answered with a yes
		answers := make(chan string, 10)
		h := v.session("laptop")
		post(v.t, v.url,
			`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"ext_rich_ask","arguments":{}}}`, h, answers)
		question := json.RawMessage(receive(v.t, answers))
		v.says(h, string(rawjson.Get(question, "id")), `{"action":"accept","content":{}}`)
		receive(v.t, answers)
	}},

	// a modern call
	{"a forged state", true, func(v *victim) {
		v.returns(v.header, "exthost-ABCDEFGHIJKLMNOPQRSTUVWXYZ", v.yes(), "")
	}},
	{"a state with another end", true, func(v *victim) {
		v.returns(v.header, v.state[:len(v.state)-1]+"0", v.yes(), "")
	}},
	{"a state in lower case", true, func(v *victim) { v.returns(v.header, strings.ToLower(v.state), v.yes(), "") }},
	{"a state of another node", true, func(v *victim) { v.returns(v.header, v.state+".elsewhere", v.yes(), "") }},
	{"a state of the host's own with an answer in it", true, func(v *victim) {
		v.returns(v.header, "exthost-roots.eyJrZXlzIjpbInExIl0sInN0YXRlIjpudWxsfQ", v.yes(), "")
	}},
	{"answers without a state", true, func(v *victim) {
		v.returns(v.header, "", `"inputResponses":{`+v.yes()+`}`, "")
	}},
	{"other arguments", true, func(v *victim) {
		v.returns(v.header, v.state, v.yes(), strings.Replace(greetFrame(`,`+asksMeta), "Ada", "Eve", 1))
	}},
	{"no arguments", true, func(v *victim) {
		v.returns(v.header, v.state, v.yes(), strings.Replace(greetFrame(`,`+asksMeta), `{"name":"Ada"}`, "{}", 1))
	}},
	{"another tool", true, func(v *victim) {
		v.returns(v.header, v.state, v.yes(), strings.Replace(greetFrame(`,`+asksMeta), "ext_x_greet", "ext_x_echo", 1))
	}},
	{"another method", true, func(v *victim) {
		v.returns(v.header, v.state, v.yes(),
			`{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"a:b",`+asksMeta+`}}`)
	}},
	{"another client with the state", true, func(v *victim) { v.returns(v.bearer("eve"), v.state, v.yes(), "") }},
	{"nobody with the state", true, func(v *victim) { v.returns(http.Header{}, v.state, v.yes(), "") }},
	{"the operator's token with the state", true, func(v *victim) {
		v.returns(v.bearer("the-operators-own-token"), v.state, v.yes(), "")
	}},
	{"an answer to another question", true, func(v *victim) {
		v.returns(v.header, v.state, `"q2":`+accepted+`,"`+strings.ToUpper(v.id)+`":`+accepted, "")
	}},
	{"an answer in _meta", true, func(v *victim) {
		v.returns(v.header, "", `"approval":"`+v.q.ID+`"`, strings.Replace(greetFrame(`,`+asksMeta), `"_meta":{`,
			`"_meta":{"exthost/approved":true,`, 1))
	}},
}

// Each attack leaves its call waiting for a person: none runs the tool, and the audit log has the outcome of each call.
func TestAttacksOnApprovals(t *testing.T) {
	processtest.Leaks(t)
	if len(approvalAttacks) < 40 {
		t.Errorf("%d attacks", len(approvalAttacks))
	}
	h := newAskingHost(t, map[string]any{"where": "client"}, map[string][]protocol.Risk{
		"laptop": {protocol.RiskWrite}, "eve": nil,
	}, "rich")
	for _, tt := range approvalAttacks {
		t.Run(tt.name, func(t *testing.T) {
			h.t = t
			v := h.newVictim(tt.modern)
			tt.try(v)
			if ran := h.ran(); ran != 0 {
				t.Errorf("the tool ran %d times", ran)
			}
			if !slices.ContainsFunc(h.Admin().ApprovalRequests(),
				func(q approval.Request) bool { return q.ID == v.q.ID && q.Approved == "" }) {
				t.Error("the request is answered")
			}
			if got := v.refuses(); !strings.Contains(got, "not approved by ann") {
				t.Errorf("the caller is told %s", got)
			}
			for _, q := range h.Admin().ApprovalRequests() { // of calls that the attack has made
				_ = h.Admin().Deny(q.ID, "ann", "")
			}
			h.waiting(0)
			v.calls.Wait()
		})
	}
	h.t = t
	refused, answers := 0, 0
	for _, line := range h.records() {
		switch {
		case line == "exthost/approvals/answer denied":
			answers++
		case line == "tools/call denied approval_denied ann operator timed":
			refused++
		default:
			t.Errorf("the audit log has %q", line)
		}
	}
	if refused < len(approvalAttacks) || answers == 0 { // some come only after the call has ended
		t.Errorf("the audit log has %d denials and %d answers that do not count", refused, answers)
	}
}
