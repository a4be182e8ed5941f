package stream

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/exthost/exthost/protocol"
)

const (
	writeTimeout = 30 * time.Second // per piece
	closeTimeout = 5 * time.Second  // for closing a stream at the other run, where an unread stream ends by itself
)

// carried are the response headers that are passed on, in addition to those that begin with Mcp-. A remote node must
// not set any other header, such as CORS headers.
var carried = map[string]bool{
	"Allow":             true,
	"Cache-Control":     true,
	"Content-Length":    true,
	"Content-Type":      true,
	"Retry-After":       true,
	"X-Accel-Buffering": true,
}

// Call makes one call to the run that serves a request.
type Call func(ctx context.Context, method string, body []byte) ([]byte, error)

// Copy lets another run serve a request, and copies the response to w as it arrives. began reports whether
// anything was written to w. It fails with the error of a call or of ctx, or if the response is incomplete.
// ctx ends when the client disconnects.
func Copy(ctx context.Context, w http.ResponseWriter, call Call, request []byte) (began bool, err error) {
	out := http.NewResponseController(w)
	// a deadline for what the caller and net/http write at the end
	defer func() { _ = out.SetWriteDeadline(time.Now().Add(writeTimeout)) }()
	raw, err := call(ctx, Open, request)
	if err != nil {
		return false, err
	}
	defer func() { err = mayHaveRun(err) }()
	for err == nil {
		var p *piece
		if p, err = decode(raw); err != nil {
			break
		}
		if !began && p.Status != 0 {
			if err = p.writeHeader(w, out); err != nil {
				return false, err
			}
			began = true
		}
		if began {
			err = p.write(w, out)
		}
		switch {
		case p.Stream == 0 && p.Cut || !began && len(p.data) > 0:
			return began, protocol.Errorf(protocol.InvalidResponse, "the response has no proper end")
		case p.Stream == 0:
			return began, err
		case err != nil || ctx.Err() != nil: // the client has disconnected, or its time is up
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			_, _ = call(closing, Close, strconv.AppendUint(nil, p.Stream, 10))
			cancel()
			return began, cmp.Or(err, ctx.Err())
		}
		raw, err = call(ctx, More, strconv.AppendUint(nil, p.Stream, 10))
	}
	return began, err
}

// mayHaveRun adds the outcome "unknown" to err, as the other run has received the request.
func mayHaveRun(err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		e = protocol.Errorf(cmp.Or(protocol.KindOf(err), protocol.InvalidResponse), "%w", err)
	}
	told := *e // the error may be shared
	told.Outcome = "unknown"
	return &told
}

// writeHeader writes the status and the headers of the first piece.
func (p *piece) writeHeader(w http.ResponseWriter, out *http.ResponseController) error {
	if p.Status < http.StatusOK || p.Status > 599 {
		return protocol.Errorf(protocol.InvalidResponse, "a response with the status %d", p.Status)
	}
	for name, values := range p.Header {
		// two Content-Length values could smuggle a second response
		if len(values) == 1 && (carried[name] || strings.HasPrefix(name, "Mcp-")) {
			w.Header()[name] = values
		}
	}
	_ = out.SetWriteDeadline(time.Now().Add(writeTimeout)) // some ResponseWriters do not support deadlines
	w.WriteHeader(p.Status)
	return nil
}

// write writes a piece to the client. Unless the piece is the last, it clears the deadline afterwards: over HTTP/2, an
// expired deadline ends the stream even if nothing is being written.
func (p *piece) write(w http.ResponseWriter, out *http.ResponseController) error {
	_ = out.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := w.Write(p.data); err != nil || p.Stream == 0 {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_ = out.SetWriteDeadline(time.Time{})
	return nil
}
