package httpserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Admin returns the operator's API of a host. It asks nobody for a token: whoever
// mounts it sees to who may reach it.
//
//	GET  /api/v1/status                   [exthost.Status]
//	POST /api/v1/extensions/{id}/restart  204 once it can be called again
//	POST /api/v1/reload                   [exthost.Change]; with ?dry_run=true only what it would be
//	GET  /api/v1/watch                    [exthost.WatchStatus]
//	POST /api/v1/watch?mode=MODE          the same, after [exthost.Admin.Watch]
//	GET  /api/v1/tap                      server-sent events, each an [exthost.Frame], of one
//	                                      extension with ?extension=
//	GET  /api/v1/logs                     server-sent events, each an [exthost.LogRecord];
//	                                      extension, level, last and follow select
//	GET  /api/v1/tools                    {"tools": [Tool…]}, of one extension with ?extension=
//	GET  /api/v1/tools/{name}             [Tool]
//	POST /api/v1/tools/{name}/call        the body is the arguments, the answer MCP's CallToolResult
//
// and of governance:
//
//	GET  /api/v1/policies                 {"policies": [exthost.PolicyStatus…], "audit": [exthost.AuditStatus]}
//	POST /api/v1/policies/test            the body is a [TestCall], the answer a [TestResult]
//	GET  /api/v1/decisions                {"decisions": [exthost.Trace…]}, the newest first; ?last= says how many
//	GET  /api/v1/decisions/{id}           [exthost.Trace]
//	GET  /api/v1/approvals                {"approvals": [exthost.Question…]}, the oldest first
//	POST /api/v1/approvals/{id}/approve   204
//	POST /api/v1/approvals/{id}/deny      204; the body may be {"reason": TEXT}
//	GET  /api/v1/pins                     {"pins": [exthost.Pin…]}
//	POST /api/v1/pins/{extension}/approve 204; all of it that is held back, with /{tool} before approve one
//
// Whatever fails is answered with {"error": [Fault]}.
func Admin(h *exthost.Host) http.Handler {
	a := &admin{host: h}
	mux := http.NewServeMux()
	routes := map[string]handler{
		"GET /api/v1/status":                   a.status,
		"POST /api/v1/extensions/{id}/restart": a.restart,
		"POST /api/v1/reload":                  a.reload,
		"GET /api/v1/watch":                    a.watchStatus,
		"POST /api/v1/watch":                   a.watch,
		"GET /api/v1/tap":                      a.tap,
		"GET /api/v1/logs":                     a.logs,
		"GET /api/v1/tools":                    a.tools,
		"GET /api/v1/tools/{name}":             a.tool,
		"POST /api/v1/tools/{name}/call":       a.call,
	}
	maps.Copy(routes, a.policyRoutes())
	for pattern, handle := range routes {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := handle(w, r); err != nil {
				writeFault(w, err)
			}
		})
	}
	return mux
}

// handler is one of admin's.
type handler func(http.ResponseWriter, *http.Request) error

// admin answers the operator. Its handlers write nothing before they return an error.
type admin struct{ host *exthost.Host }

func (a *admin) status(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, a.host.Admin().Status())
}

func (a *admin) restart(w http.ResponseWriter, r *http.Request) error {
	if err := a.host.Admin().Restart(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *admin) reload(w http.ResponseWriter, r *http.Request) error {
	act := a.host.Admin().Reload
	if r.FormValue("dry_run") == "true" {
		act = a.host.Admin().Plan
	}
	change, err := act(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, change)
}

func (a *admin) watchStatus(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, a.host.Admin().WatchStatus())
}

func (a *admin) watch(w http.ResponseWriter, r *http.Request) error {
	s, err := a.host.Admin().Watch(r.Context(), r.FormValue("mode"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s)
}

// Tool is one tool of the catalog, as the operator sees it.
type Tool struct {
	Name        string          `json:"name"`
	Extension   string          `json:"extension"`
	Tool        string          `json:"tool"` // the extension's own name for it
	Description string          `json:"description"`
	Tokens      int             `json:"tokens"`               // what it costs in every model request, about
	Descriptor  json.RawMessage `json:"descriptor,omitempty"` // as MCP clients get it
}

// ToolOf returns what the operator is told of a tool.
func ToolOf(e *tools.Entry) Tool {
	return Tool{Name: e.Name, Extension: e.Extension, Tool: e.Tool, Description: e.Description, Tokens: e.Tokens()}
}

func (a *admin) tools(w http.ResponseWriter, r *http.Request) error {
	entries := a.host.Tools().Entries()
	if id := r.FormValue("extension"); id != "" {
		entries = a.host.Tools().Extension(id)
	}
	list := make([]Tool, len(entries))
	for i, e := range entries {
		list[i] = ToolOf(e)
	}
	return writeJSON(w, http.StatusOK, map[string][]Tool{"tools": list})
}

// startPatience is how long a tool that is not there yet is waited for while
// extensions start.
const startPatience = 5 * time.Second

func (a *admin) tool(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	e, ok := a.host.Tools().Lookup(name)
	if !ok {
		ctx, cancel := context.WithTimeout(r.Context(), startPatience)
		_ = a.host.Ready(ctx) // what is there by then counts
		cancel()
		e, ok = a.host.Tools().Lookup(name)
	}
	if !ok {
		return protocol.Errorf(protocol.ToolNotFound, "there is no tool %q", name)
	}
	t := ToolOf(e)
	t.Descriptor = e.Descriptor
	return writeJSON(w, http.StatusOK, t)
}

// maxArguments bounds the body of a call; no extension takes a longer line.
const maxArguments = 16 << 20

func (a *admin) call(w http.ResponseWriter, r *http.Request) error {
	arguments, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxArguments))
	if err != nil {
		return protocol.Errorf(protocol.InvalidArguments, "the arguments cannot be read: %w", err)
	}
	result, err := a.host.Call(r.Context(), r.PathValue("name"), json.RawMessage(arguments))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, json.RawMessage(result))
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	data, ok := v.(json.RawMessage) // which goes out as it is
	if !ok {
		var err error
		if data, err = json.Marshal(v); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(data[:len(data):len(data)], '\n')) // nobody is left to tell
	return nil
}

// Fault is a *protocol.Error as the operator gets it: with all its evidence.
type Fault struct {
	Kind       protocol.Kind      `json:"kind,omitempty"`
	Message    string             `json:"message"`
	Extension  string             `json:"extension,omitempty"`
	Tool       string             `json:"tool,omitempty"`
	Code       int                `json:"code,omitempty"`
	Data       json.RawMessage    `json:"data,omitempty"`
	Outcome    string             `json:"outcome,omitempty"`
	RetryAfter time.Duration      `json:"retry_after_ns,omitempty"`
	Evidence   *protocol.Evidence `json:"evidence,omitempty"`
}

// Err returns the error that became the fault.
func (f *Fault) Err() error {
	if f.Kind == "" {
		return errors.New(f.Message)
	}
	return &protocol.Error{Kind: f.Kind, Message: f.Message, Extension: f.Extension, Tool: f.Tool, Code: f.Code, Data: f.Data,
		Outcome: f.Outcome, RetryAfter: f.RetryAfter, Evidence: f.Evidence}
}

func faultOf(err error) Fault {
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return Fault{e.Kind, e.Message, e.Extension, e.Tool, e.Code, e.Data, e.Outcome, e.RetryAfter, e.Evidence}
	}
	return Fault{Kind: protocol.KindOf(err), Message: err.Error()}
}

func writeFault(w http.ResponseWriter, err error) {
	f := faultOf(err)
	_ = writeJSON(w, faultStatus(f.Kind), map[string]Fault{"error": f}) // it always encodes
}

func faultStatus(kind protocol.Kind) int {
	switch kind {
	case "":
		return http.StatusInternalServerError
	case protocol.InvalidArguments:
		return http.StatusBadRequest
	case protocol.ToolNotFound:
		return http.StatusNotFound
	case protocol.Rejected, protocol.Untrusted, protocol.DescriptorChanged:
		return http.StatusForbidden
	case protocol.RequirementMissing, protocol.ConfigInvalid:
		return http.StatusConflict
	case protocol.NotReady, protocol.BreakerOpen, protocol.Overloaded, protocol.Failed, protocol.ShuttingDown, protocol.GovernanceUnavailable:
		return http.StatusServiceUnavailable
	case protocol.CallTimeout, protocol.HandshakeTimeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}
