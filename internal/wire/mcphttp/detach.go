package mcphttp

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/sse"
)

// lingerTimeout is how long a connection stays open for its client to read the last bytes. A client that writes to a
// closed connection may lose what it has not read.
const lingerTimeout = 500 * time.Millisecond

// MayDetach reports whether [Reply.Detach] is possible, which needs HTTP/1.1. If so and the reply becomes an event
// stream, the connection is closed after it: otherwise the client could send its next request on a connection that
// Detach is about to close.
func (p *Reply) MayDetach() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.w.(http.Hijacker)
	p.detaches = ok && p.r.ProtoMajor == 1 && p.r.ProtoMinor == 1
	return p.detaches
}

// Detach is [Reply.Answer] with status 200 while the handler goes on; net/http would complete the answer only after
// the handler returns. Call [Reply.MayDetach] first, and do not return from the handler before Detach. Detach takes
// over the connection, so the client opens another one for its next request, and the request's context no longer ends
// when the client disconnects. The end of that context cuts off a write in progress.
func (p *Reply) Detach(m *jsonrpc.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done || !p.detaches {
		return ErrNoStream
	}
	header := p.w.Header()
	conn, out, err := http.NewResponseController(p.w).Hijack()
	if err != nil {
		return err
	}
	p.closeLocked()
	defer linger(conn)
	_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	// the server no longer knows conn and cannot close it
	defer context.AfterFunc(p.r.Context(), func() { _ = conn.SetWriteDeadline(time.Now()) })()
	if p.events != nil {
		err = writeLastEvent(out.Writer, m)
	} else {
		err = p.writeLast(out.Writer, header, m)
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

// writeLast writes a whole response with Connection: close.
func (p *Reply) writeLast(out io.Writer, header http.Header, m *jsonrpc.Message) error {
	body, err := jsonrpc.Append(nil, m)
	if err != nil {
		return err
	}
	header["Content-Type"] = jsonType
	header["Date"] = []string{time.Now().UTC().Format(http.TimeFormat)}
	response := http.Response{
		StatusCode:    http.StatusOK,
		ProtoMajor:    1,
		ProtoMinor:    1,
		Request:       p.r,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Close:         true,
	}
	return response.Write(out)
}

// writeLastEvent writes the last event of a chunked event stream begun by net/http.
func writeLastEvent(out *bufio.Writer, m *jsonrpc.Message) error {
	event, err := sse.AppendEvent(nil, "message", func(b []byte) ([]byte, error) { return jsonrpc.Append(b, m) })
	if err != nil {
		return err
	}
	chunks := httputil.NewChunkedWriter(out)
	_, _ = chunks.Write(event) // out keeps an error
	_ = chunks.Close()
	_, err = out.WriteString("\r\n") // no trailers
	return err
}

// linger closes the sending side of conn, and conn itself a little later.
func linger(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		time.AfterFunc(lingerTimeout, func() { _ = conn.Close() })
		return
	}
	_ = conn.Close()
}
