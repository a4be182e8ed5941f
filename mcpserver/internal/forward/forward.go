// Package forward has other servers answer the requests of sessions, calls and tasks that they have.
// A request travels in a form of its own, with its caller as the server has authenticated it that got
// the request.
package forward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// Request is what travels of a request beside its body.
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

// ID returns an id that begins with random and ends with the home of a server; nil has none.
func ID(random string, server interface{ Home() string }) string {
	if server == nil {
		return random
	}
	return random + "." + server.Home()
}

// allowed are the headers that travel, besides those of MCP, which begin with Mcp-.
var allowed = map[string]bool{
	"Accept":        true,
	"Content-Type":  true,
	"Last-Event-Id": true,
	"Traceparent":   true,
	"Tracestate":    true,
	"Baggage":       true,
}

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

// encode returns the form in which a request travels.
func (q *Request) encode(body []byte) []byte {
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
	r, err := http.NewRequestWithContext(ctx, q.Method, (&url.URL{Path: "/" + q.Endpoint, RawQuery: q.Query}).String(),
		bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if q.Header != nil {
		r.Header = q.Header
	}
	r.RemoteAddr = q.Client
	return q, r, nil
}
