package mcphttp

import (
	"encoding/json"
	"net/http"
	"regexp"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

// Members of a message's _meta that identify its trace (W3C Trace Context). They are named like the HTTP headers.
const (
	traceParent = "traceparent"
	traceState  = "tracestate"

	maxTraceState = 512 // bytes; vendors should propagate at least that many (Trace Context, 3.3.1.5)
)

var (
	parentForm = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{0,64})?$`)
	stateForm  = regexp.MustCompile(`^[ -~]*$`) // no line breaks, which would end the header
)

// JoinTrace copies the trace in an HTTP request's headers to m, a request or notification, unless m has its own.
// Malformed headers are ignored.
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

// SetTrace sets the trace headers from params, if params have a trace.
func SetTrace(h http.Header, params json.RawMessage) {
	meta := rawjson.Get(params, "_meta")
	parent, _ := rawjson.Text(rawjson.Get(meta, traceParent))
	if !parentForm.MatchString(parent) {
		return
	}
	h.Set(traceParent, parent)
	if state, _ := rawjson.Text(rawjson.Get(meta, traceState)); state != "" && len(state) <= maxTraceState &&
		stateForm.MatchString(state) {
		h.Set(traceState, state)
	}
}
