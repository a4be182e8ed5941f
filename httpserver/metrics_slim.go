//go:build slim

package httpserver

import (
	"net/http"

	"github.com/exthost/exthost"
)

// Metrics returns a handler that refuses: a slim build has no metrics for Prometheus.
func Metrics(*exthost.Host) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this exthost is a slim build, which has no metrics; the whole exthost has, and so has "+
			"/api/v1/status", http.StatusNotImplemented)
	})
}
