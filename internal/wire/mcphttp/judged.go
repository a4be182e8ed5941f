package mcphttp

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/exthost/exthost/protocol"
)

// maxJudged is the max total length of the headers passed to policies, in bytes.
const maxJudged = 16 << 10

// noHeaders is shared by all requests without such headers. It must not be changed.
var noHeaders = map[string]string{}

// Judged returns r with the named headers in its context, for policies of category authentication. If they are too
// long, it answers the request and returns nil.
func Judged(w http.ResponseWriter, r *http.Request, names []string) *http.Request {
	headers, size := noHeaders, 0
	for _, name := range names {
		if values := r.Header.Values(name); len(values) > 0 {
			if len(headers) == 0 {
				headers = make(map[string]string)
			}
			value := strings.ToValidUTF8(strings.Join(values, ", "), "\ufffd") // gRPC strings must be UTF-8
			headers[strings.ToLower(name)], size = value, size+len(value)
		}
	}
	if size > maxJudged {
		http.Error(w, fmt.Sprintf("the headers that policies judge have %d bytes, and at most %d are accepted", size,
			maxJudged), http.StatusRequestHeaderFieldsTooLarge)
		return nil
	}
	return r.WithContext(protocol.WithHeaders(r.Context(), headers))
}
