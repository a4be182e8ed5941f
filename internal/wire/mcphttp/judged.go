package mcphttp

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/exthost/exthost/protocol"
)

// maxJudged bounds the values of the headers that policies get of one request, in bytes.
const maxJudged = 16 << 10

// noHeaders are those of a request without any. Nobody changes them.
var noHeaders = map[string]string{}

// Judged returns r with the named headers, which policies of category authentication get.
// It answers a request that has too much of
// them, and returns nil.
func Judged(w http.ResponseWriter, r *http.Request, names []string) *http.Request {
	headers, size := noHeaders, 0
	for _, name := range names {
		if values := r.Header.Values(name); len(values) > 0 {
			if len(headers) == 0 {
				headers = make(map[string]string)
			}
			value := strings.ToValidUTF8(strings.Join(values, ", "), "\ufffd") // policies of kind grpc get text alone
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
