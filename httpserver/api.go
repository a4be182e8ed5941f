package httpserver

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/protocol"
)

// Admin returns the operator's API of a host, below /api/v1. It asks nobody for a
// token: whoever mounts it sees to who may reach it. What it serves is in the
// OpenAPI document at /api/v1/openapi.json. Whatever fails of that is answered with
// {"error": [Fault]}.
func Admin(h *exthost.Host) http.Handler {
	a := &admin{host: h}
	mux := http.NewServeMux()
	for _, o := range operations() {
		mux.HandleFunc(o.method+" "+apiRoot+o.path, func(w http.ResponseWriter, r *http.Request) {
			if err := o.handle(a, w, r); err != nil {
				writeFault(w, err)
			}
		})
	}
	return mux
}

const apiRoot = "/api/v1"

// operation is one request of the operator's API, as it is served and as it is
// documented. The OpenAPI document is generated from these.
type operation struct {
	method, path string // below apiRoot
	summary      string
	query        []parameter
	body         any            // of the type that the body has; nil: none
	answer       any            // of the type of the answer; nil: 204, no content
	events       map[string]any // of a stream: of the types of the events' data, by name
	handle       handler
}

// handler answers one operation. It writes nothing before it returns an error.
type handler func(a *admin, w http.ResponseWriter, r *http.Request) error

// parameter is one of a query.
type parameter struct{ name, summary string }

// boolean reads a parameter that is true or false, which is the default.
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

// operations are all there are.
func operations() []operation {
	return slices.Concat(hostOperations, extensionOperations, toolOperations, policyOperations)
}
