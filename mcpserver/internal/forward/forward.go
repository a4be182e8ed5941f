// Package forward forwards requests to the server that has their session, call or task. A forwarded request carries
// the caller that the receiving server has authenticated.
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

// Request is the head of a forwarded request; its body follows.
type Request struct {
	Extension string      `json:"ext,omitempty"`      // the extension served; "" for all
	Endpoint  string      `json:"endpoint"`           // EndpointMCP or EndpointMessage
	Method    string      `json:"method"`             // HTTP method
	Query     string      `json:"query,omitempty"`    // query of the URL
	Header    http.Header `json:"header,omitempty"`   // the headers that SetHeader selects
	Client    string      `json:"client,omitempty"`   // host:port
	Caller    string      `json:"caller,omitempty"`   // as authenticated by the server that received the request
	Toolset   string      `json:"toolset,omitempty"`  // the caller's
	ToolMode  string      `json:"toolmode,omitempty"` // the caller's
}

// The values of Request.Endpoint.
const (
	EndpointMCP     = "mcp"     // streamable HTTP
	EndpointMessage = "message" // the POSTs of MCP 2024-11-05
)

// ID appends the server's home to random; a nil server has none.
func ID(random string, server interface{ Home() string }) string {
	if server == nil {
		return random
	}
	return random + "." + server.Home()
}

// allowed are the headers that are forwarded, besides those that begin with Mcp-.
var allowed = map[string]bool{
	"Accept":        true,
	"Content-Type":  true,
	"Last-Event-Id": true,
	"Traceparent":   true,
	"Tracestate":    true,
	"Baggage":       true,
}

// SetHeader copies the headers to forward from r: the allowed ones and names.
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

// Decode decodes a forwarded request. The returned HTTP request has context ctx, and a URL of the endpoint and query.
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
