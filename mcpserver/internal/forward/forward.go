// Package forward is the form of an HTTP request that travels from the server that got it to the
// one that began its session.
package forward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/sse"
	"github.com/exthost/exthost/protocol"
)

// Request is what travels beside the body.
type Request struct {
	Extension string      `json:"ext,omitempty"`      // that is served; "" for all
	Endpoint  string      `json:"endpoint"`           // EndpointMCP or EndpointMessage
	Method    string      `json:"method"`             // of HTTP
	Query     string      `json:"query,omitempty"`    // of the URL
	Header    http.Header `json:"header,omitempty"`   // those that are allowed
	Client    string      `json:"client,omitempty"`   // host:port
	Caller    string      `json:"caller,omitempty"`   // as the server that got the request has authenticated it
	Toolset   string      `json:"toolset,omitempty"`  // of the caller
	ToolMode  string      `json:"toolmode,omitempty"` // of the caller
}

// The values of Request.Endpoint.
const (
	EndpointMCP     = "mcp"     // streamable HTTP
	EndpointMessage = "message" // the POSTs of MCP 2024-11-05
)

// Home returns the end of an id that names a server: what follows the last dot. It is "" for an id
// without one.
func Home(id string) string {
	if i := strings.LastIndexByte(id, '.'); i >= 0 {
		return id[i+1:]
	}
	return ""
}

// ID returns an id that begins with random and ends with the home of a server; nil has none.
func ID(random string, server interface{ Home() string }) string {
	if server == nil {
		return random
	}
	return random + "." + server.Home()
}

// allowed are the headers that travel, besides those of MCP, which begin with Mcp-.
var allowed = map[string]bool{"Accept": true, "Content-Type": true, "Last-Event-Id": true, "Traceparent": true, "Tracestate": true, "Baggage": true}

// SetHeader sets the headers of r that travel: the allowed ones, and those of names.
func (q *Request) SetHeader(r *http.Request, names []string) {
	q.Header = make(http.Header)
	for name, values := range r.Header {
		if allowed[name] || strings.HasPrefix(name, "Mcp-") {
			q.Header[name] = values
		}
	}
	for _, name := range names {
		if values := r.Header.Values(name); len(values) > 0 {
			q.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
}

// Encode returns the form in which a request travels.
func (q *Request) Encode(body []byte) []byte {
	head, _ := json.Marshal(q) // strings always encode
	return append(append(append(make([]byte, 0, len(head)+1+len(body)), head...), '\n'), body...)
}

// Decode reads a request. ctx becomes that of the HTTP request, whose URL has the query alone.
func Decode(ctx context.Context, data []byte) (*Request, *http.Request, error) {
	head, body, ok := bytes.Cut(data, []byte{'\n'})
	q := new(Request)
	if err := json.Unmarshal(head, q); !ok || err != nil {
		return nil, nil, errors.Join(errors.New("the request of another server cannot be read"), err)
	}
	r, err := http.NewRequestWithContext(ctx, q.Method, (&url.URL{Path: "/" + q.Endpoint, RawQuery: q.Query}).String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if q.Header != nil {
		r.Header = q.Header
	}
	r.RemoteAddr = q.Client
	return q, r, nil
}

// Cut ends a response whose rest will not come: an event stream with the answer last to its request
// m. The client of any other must not take it for a whole one: Cut panics with http.ErrAbortHandler.
func Cut(w http.ResponseWriter, m, last *jsonrpc.Message) {
	if m.ID == nil || m.Method == "" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
		panic(http.ErrAbortHandler)
	}
	_ = sse.NewWriter(w, "no-cache").Event("message", func(b []byte) ([]byte, error) { return jsonrpc.Append(b, last) }, true)
}

// NoHome reports whether err says that no server has the home that a request is for.
func NoHome(err error) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	return ok && e.Kind == protocol.NodeLost && e.Outcome == ""
}
