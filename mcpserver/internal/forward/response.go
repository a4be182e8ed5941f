package forward

import (
	"net/http"
	"strings"
)

// response is a response written by another server.
type response struct {
	http.ResponseWriter
	end [2]byte // the last two bytes written
}

// Unwrap is for [http.ResponseController].
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Write implements [http.ResponseWriter].
func (r *response) Write(p []byte) (int, error) {
	for _, b := range p[max(0, len(p)-len(r.end)):] {
		r.end = [2]byte{r.end[1], b}
	}
	return r.ResponseWriter.Write(p)
}

// isBetweenEvents reports whether the response is an event stream with no partly written event.
func (r *response) isBetweenEvents() bool {
	return strings.HasPrefix(r.Header().Get("Content-Type"), "text/event-stream") &&
		(r.end == [2]byte{} || string(r.end[:]) == "\n\n")
}
