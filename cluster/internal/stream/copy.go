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
	writeTimeout = 30 * time.Second // of one piece to a client
	closeTimeout = 5 * time.Second  // for a run to hear that nobody reads a stream, which it sees itself later
)

// carried are the headers of a response that are passed on, besides those of MCP, which begin with
// Mcp-. What another run says decides nothing else at this server, such as which pages may read it.
var carried = map[string]bool{
	"Allow":             true,
	"Cache-Control":     true,
	"Content-Length":    true,
	"Content-Type":      true,
	"Retry-After":       true,
	"X-Accel-Buffering": true,
}

// Call carries one call to the run that serves a request.
type Call func(ctx context.Context, method string, body []byte) ([]byte, error)

// Copy has a request served by another run, and writes the response to w as it comes. began reports
// whether w has been written to. The error is that of a call or of ctx, or says that the response is cut; when
// the client has disconnected, which ends ctx, it is of no use.
func Copy(ctx context.Context, w http.ResponseWriter, call Call, request []byte) (began bool, err error) {
	out := http.NewResponseController(w)
	// of what the caller and net/http write at the end
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
			if p.Status < http.StatusOK || p.Status > 599 {
				return false, protocol.Errorf(protocol.InvalidResponse, "a response with the status %d", p.Status)
			}
			setHeader(w.Header(), p.Header)
			_ = out.SetWriteDeadline(time.Now().Add(writeTimeout)) // some ResponseWriters have no deadlines
			w.WriteHeader(p.Status)
			began = true
		}
		if began {
			err = write(w, out, p)
		}
		switch {
		case p.Stream == 0 && p.Cut || !began && len(p.data) > 0:
			return began, protocol.Errorf(protocol.InvalidResponse, "the response has no proper end")
		case p.Stream == 0:
			return began, err
		case err != nil || ctx.Err() != nil: // the client is gone, or may stay no longer
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			_, _ = call(closing, Close, strconv.AppendUint(nil, p.Stream, 10))
			cancel()
			return began, cmp.Or(err, ctx.Err())
		}
		raw, err = call(ctx, More, strconv.AppendUint(nil, p.Stream, 10))
	}
	return began, err
}

// mayHaveRun returns err as one of a request that the other run has got; nil for nil.
func mayHaveRun(err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		e = protocol.Errorf(cmp.Or(protocol.KindOf(err), protocol.InvalidResponse), "%w", err)
	}
	told := *e // several requests may get one
	told.Outcome = "unknown"
	return &told
}

func setHeader(to, from http.Header) {
	for name, values := range from {
		// two lengths would end the response in two places
		if len(values) == 1 && (carried[name] || strings.HasPrefix(name, "Mcp-")) {
			to[name] = values
		}
	}
}

// write writes a piece to the client. Between pieces there is no deadline: over HTTP/2, one that passes
// ends the stream, though nothing is written.
func write(w http.ResponseWriter, out *http.ResponseController, p *piece) error {
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
