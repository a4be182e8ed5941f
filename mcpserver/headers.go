package mcpserver

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/exthost/exthost/protocol"
)

// maxHeaders bounds the values of the headers that policies get of one request, in bytes.
const maxHeaders = 16 << 10

// withHeaders returns r with the headers that policies of category authentication get: its
// Authorization and Options.Headers. It answers a request that has too much of them, and
// returns nil.
func (e *endpoint) withHeaders(w http.ResponseWriter, r *http.Request) *http.Request {
	headers, size := make(map[string]string), 0
	for _, name := range append([]string{"Authorization"}, e.options.Headers...) {
		if values := r.Header.Values(name); len(values) > 0 {
			value := strings.ToValidUTF8(strings.Join(values, ", "), "\ufffd") // policies of kind grpc get text alone
			headers[strings.ToLower(name)], size = value, size+len(value)
		}
	}
	if size > maxHeaders {
		http.Error(w, fmt.Sprintf("the headers that policies judge have %d bytes, and at most %d are accepted", size, maxHeaders), http.StatusRequestHeaderFieldsTooLarge)
		return nil
	}
	return r.WithContext(protocol.WithHeaders(r.Context(), headers))
}
