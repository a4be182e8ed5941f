package mcphttp

import (
	"encoding/json"
	"net/http"
	"regexp"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/rawjson"
)

// A trace that a message belongs to (W3C Trace Context) stands in its _meta, by the
// names that HTTP's headers have for it.
const (
	traceParent = "traceparent"
	traceState  = "tracestate"

	maxTraceState = 512 // bytes, which is what everybody must be able to pass on
)

var parentForm = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{0,64})?$`)

// JoinTrace puts m, a request or a notification, into the trace that the headers of
// its HTTP request name. What m says itself stays, and headers that are malformed do
// not count.
func JoinTrace(h http.Header, m *jsonrpc.Message) {
	parent := h.Get(traceParent)
	if parent == "" || m.Method == "" || !parentForm.MatchString(parent) {
		return
	}
	params := m.Params
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	meta := rawjson.Get(params, "_meta")
	switch {
	case meta == nil:
		meta = json.RawMessage("{}")
	case meta[0] != '{' || rawjson.Get(meta, traceParent) != nil:
		return
	}
	meta = rawjson.Set(meta, traceParent, rawjson.AppendText(nil, parent))
	if state := h.Get(traceState); state != "" && len(state) <= maxTraceState {
		meta = rawjson.Set(meta, traceState, rawjson.AppendText(nil, state))
	}
	m.Params = rawjson.Set(params, "_meta", meta)
}

// nameTrace sets the headers that name the trace of params, if they belong to one.
func nameTrace(h http.Header, params json.RawMessage) {
	meta := rawjson.Get(params, "_meta")
	parent, _ := rawjson.Text(rawjson.Get(meta, traceParent))
	if !parentForm.MatchString(parent) {
		return
	}
	h.Set(traceParent, parent)
	if state, _ := rawjson.Text(rawjson.Get(meta, traceState)); state != "" && len(state) <= maxTraceState && stateForm.MatchString(state) {
		h.Set(traceState, state)
	}
}

// stateForm leaves out what would end a header.
var stateForm = regexp.MustCompile(`^[ -~]*$`)
