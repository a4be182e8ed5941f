package hosttest

import (
	"context"
	"net/http"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/httpserver"
)

// OverHTTP serves h, and returns its URL.
func OverHTTP(t *testing.T, h *exthost.Host) string {
	return ServeOptions(t, httpserver.Options{Backend: h, Serves: h.Serves, Toolsets: h.Toolsets()})
}

// ServeOptions serves over HTTP until the test ends, and returns the URL.
func ServeOptions(t *testing.T, o httpserver.Options) string {
	o.Listen = "127.0.0.1:0"
	s := httpserver.New(o)
	l, err := s.Listen(Deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return "http://" + l.Addr().String()
}
