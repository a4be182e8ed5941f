package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// forwardedRequest is the head of a request that is forwarded to the server with the session, call or task that the
// request is about. The body of the request follows the head.
type forwardedRequest struct {
	Extension string      `json:"ext,omitempty"`      // the extension served; "" for all
	Endpoint  string      `json:"endpoint"`           // endpointMCP or endpointMessage
	Method    string      `json:"method"`             // HTTP method
	Query     string      `json:"query,omitempty"`    // query of the URL
	Header    http.Header `json:"header,omitempty"`   // the headers that setHeader selects
	Client    string      `json:"client,omitempty"`   // host:port
	Caller    string      `json:"caller,omitempty"`   // as authenticated by the server that received the request
	Toolset   string      `json:"toolset,omitempty"`  // the caller's
	ToolMode  string      `json:"toolmode,omitempty"` // the caller's
}

// The values of forwardedRequest.Endpoint.
const (
	endpointMCP     = "mcp"     // streamable HTTP
	endpointMessage = "message" // the POSTs of MCP 2024-11-05
)

// forwardedHeaders are the headers that are forwarded, besides those that begin with Mcp-.
var forwardedHeaders = map[string]bool{
	"Accept":        true,
	"Content-Type":  true,
	"Last-Event-Id": true,
	"Traceparent":   true,
	"Tracestate":    true,
	"Baggage":       true,
}

// setHeader copies headers from r: forwardedHeaders, those that begin with Mcp-, and names.
func (q *forwardedRequest) setHeader(r *http.Request, names []string) {
	q.Header = make(http.Header)
	for name, values := range r.Header {
		if forwardedHeaders[name] || strings.HasPrefix(name, "Mcp-") {
			q.Header[name] = values
		}
	}
	for _, name := range names {
		if values := r.Header.Values(name); len(values) > 0 {
			q.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
}

// encode returns q and body in the form that decodeForwarded reads.
func (q *forwardedRequest) encode(body []byte) []byte {
	head, _ := json.Marshal(q) // strings always encode
	return append(append(append(make([]byte, 0, len(head)+1+len(body)), head...), '\n'), body...)
}

// decodeForwarded decodes a forwarded request. The returned HTTP request has context ctx, and a URL with only the
// endpoint and query.
func decodeForwarded(ctx context.Context, data []byte) (*forwardedRequest, *http.Request, error) {
	head, body, ok := bytes.Cut(data, []byte{'\n'})
	q := new(forwardedRequest)
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

// forwardedResponse is a response written by another server.
type forwardedResponse struct {
	http.ResponseWriter
	end [2]byte // the last two bytes written
}

// Unwrap is for [http.ResponseController].
func (r *forwardedResponse) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Write implements [http.ResponseWriter].
func (r *forwardedResponse) Write(p []byte) (int, error) {
	for _, b := range p[max(0, len(p)-len(r.end)):] {
		r.end = [2]byte{r.end[1], b}
	}
	return r.ResponseWriter.Write(p)
}

// isBetweenEvents reports whether the response is an event stream with no partly written event.
func (r *forwardedResponse) isBetweenEvents() bool {
	return strings.HasPrefix(r.Header().Get("Content-Type"), "text/event-stream") &&
		(r.end == [2]byte{} || string(r.end[:]) == "\n\n")
}
