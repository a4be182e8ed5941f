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

// lingerTimeout is how long a connection stays open for its client to read the last bytes: a
// client that writes to a closed one may lose what it has not read yet.
const lingerTimeout = 500 * time.Millisecond

// MayDetach reports whether [Reply.Detach] is possible: over HTTP/1.1 alone. If the reply becomes an
// event stream, its connection then ends with it: a client could else send its next request on a
// connection that Detach is about to close.
func (p *Reply) MayDetach() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.w.(http.Hijacker)
	p.detaches = ok && p.r.ProtoMajor == 1 && p.r.ProtoMinor == 1
	return p.detaches
}

// Detach is [Reply.Answer] with status 200 while the handler goes on: net/http would complete the
// answer only when the handler returns. Detach takes the connection from the server, and the client
// opens another one for its next request. [Reply.MayDetach] comes first. The context of the request then no longer ends
// when the client disconnects; a write that goes on when it ends is cut. The handler must not return before Detach.
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
	// the server cannot close conn
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

// writeLast writes the response of a connection that is closed after it.
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

// writeLastEvent ends the event stream that net/http has begun, which it sends in chunks.
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

// linger ends what conn sends, and closes conn a little later.
func linger(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		time.AfterFunc(lingerTimeout, func() { _ = conn.Close() })
		return
	}
	_ = conn.Close()
}
