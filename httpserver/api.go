package httpserver

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/protocol"
)

const (
	apiRoot = "/api/v1"
	// maxArguments is the max body of a call: the longest line accepted by any extension.
	maxArguments = 16 << 20
)

// operation is one operation of the operator's API. The routes and the OpenAPI document are generated from it.
type operation struct {
	method, path string // below apiRoot
	summary      string
	query        []parameter
	body         any            // a value of the body's type; nil: no body
	answer       any            // a value of the answer's type; nil: 204 without content
	events       map[string]any // for a stream: by event name, a value of the type of its data
	handle       handler
	stream       func(h *exthost.Host, r *http.Request) ([]source, error) // instead of handle
	// Writes the answer, or JSON lines, instead of handle.
	write func(h *exthost.Host, w http.ResponseWriter, r *http.Request) error
	// For JSON lines, a value of the type of each. Nil: a cassette's.
	lines any
}

// handler returns the answer of an operation, or nil for 204.
type handler func(h *exthost.Host, r *http.Request) (any, error)

// parameter is a parameter of a query.
type parameter struct{ name, summary string }

// boolean reads a boolean parameter; default false.
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

// number reads a non-negative integer parameter.
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

// decode reads an object of the operator's API from the body; an empty body is an empty object.
func decode(r *http.Request, what string, into any) error { return decodeLarge(r, what, 1<<20, into) }

// decodeLarge is decode for a body of at most so many bytes.
func decodeLarge(r *http.Request, what string, most int64, into any) error {
	dec := json.NewDecoder(http.MaxBytesReader(nil, r.Body, most))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return protocol.Errorf(protocol.InvalidArguments, what+" cannot be read: %w", err)
	}
	return nil
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
