package httpserver

import (
	"net/http"
	"strconv"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/httpserver/internal/streams"
	"github.com/exthost/exthost/protocol"
)

const (
	apiRoot = "/api/v1"
	// maxArguments bounds the body of a call. It is the longest line that any
	// extension takes.
	maxArguments = 16 << 20
)

// operation is one request of the operator's API. The routes and the OpenAPI document
// are generated from it.
type operation struct {
	method, path string // below apiRoot
	summary      string
	query        []parameter
	body         any            // a value of the body's type; nil: no body
	answer       any            // a value of the answer's type; nil: 204 without content
	events       map[string]any // of a stream: a value of each event's data type, by the event's name
	handle       handler
	stream       func(h *exthost.Host, r *http.Request) ([]streams.Source, error) // in place of handle
	// in place of handle: writes JSON lines
	write func(h *exthost.Host, w http.ResponseWriter, r *http.Request) error
}

// handler returns the answer of an operation, nil for 204 without content.
type handler func(h *exthost.Host, r *http.Request) (any, error)

// parameter is one of a query.
type parameter struct{ name, summary string }

// boolean reads a parameter that is true or false (default).
func boolean(r *http.Request, name string) (bool, error) {
	text := r.FormValue(name)
	if text == "" {
		return false, nil
	}
	is, err := strconv.ParseBool(text)
	if err != nil {
		return false, protocol.Errorf(protocol.InvalidArguments, "%s is true or false, not %q", name, text)
	}
	return is, nil
}

// number reads a parameter that is a number, not negative.
func number(r *http.Request, name string, byDefault int) (int, error) {
	text := r.FormValue(name)
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, protocol.Errorf(protocol.InvalidArguments, "%s is a number, 0 or more, not %q", name, text)
	}
	return n, nil
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
