package serve

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/mcpserver"
)

// stdioDrain is the time that calls have whose client has closed stdin. The end of the
// extensions takes its own time after it.
const stdioDrain = 3 * time.Second

// stdioFront serves one client on stdin and stdout.
func (r *run) stdioFront() front {
	return front{serve: func(ctx context.Context, h *exthost.Host) error {
		server := mcpserver.New(h, mcpserver.Options{Version: exthost.Version(), Logger: r.log, DrainTimeout: stdioDrain})
		return server.ServeStdio(ctx, readCloser(r.console.In), writeCloser(r.console.Out))
	}}
}

// readCloser returns a file as it is, so that reading it can be interrupted.
func readCloser(r io.Reader) io.ReadCloser {
	if f, ok := r.(*os.File); ok {
		return f
	}
	return io.NopCloser(r)
}

func writeCloser(w io.Writer) io.WriteCloser {
	if f, ok := w.(*os.File); ok {
		return f
	}
	return nopCloser{w}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
