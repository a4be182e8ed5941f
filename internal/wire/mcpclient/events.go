package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/internal/wire/sse"
)

// Events is a [jsonrpc.Transport] over HTTP with server-sent events, the transport of MCP 2024-11-05. All messages of
// the server arrive on one stream, whose first event contains the URL for POSTs. The session ends with the stream.
type Events struct {
	client
	ready    chan struct{} // closed once endpoint is set
	endpoint *url.URL
}

// NewEvents returns a transport and starts to connect. It fails only if the URL is invalid.
func NewEvents(o Options) (*Events, error) {
	e := &Events{ready: make(chan struct{})}
	if err := e.init(o); err != nil {
		return nil, err
	}
	e.tasks.Go(func() { e.fail(e.listen()) })
	return e, nil
}

// listen delivers the messages of the stream and returns why the stream ended.
func (e *Events) listen() error {
	r, err := e.newRequest(e.ctx, http.MethodGet, e.url, nil, http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		return err
	}
	resp, err := e.do(r, func() {})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := e.checkStatus(resp); err != nil {
		return err
	}
	if media := mediaType(resp); media != "text/event-stream" {
		return &BrokenError{
			What: "the server answered with content type " + quoted(media) +
				`, not with an event stream; check the url, and kind: a newer server needs kind = "http"`,
		}
	}
	events := sse.NewReader(resp.Body, e.o.MaxBytes)
	for {
		event, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLarge):
			return &BrokenError{"an event is too large for max_line_bytes", err}
		case err != nil:
			return ErrStreamEnded
		case event.Name == "endpoint":
			if err := e.setEndpoint(string(event.Data)); err != nil {
				return err
			}
		default:
			if m, ok := messageOf(&event); ok {
				e.deliver(m)
			}
		}
	}
}

// setEndpoint sets the URL for POSTs. It must have the server's origin, because another server would get the
// credentials.
func (e *Events) setEndpoint(ref string) error {
	if e.endpoint != nil {
		return nil
	}
	u, err := e.url.Parse(ref)
	if err != nil || u.Scheme != e.url.Scheme || u.Host != e.url.Host {
		return &BrokenError{What: "the server wants messages posted to another place than itself, which is refused"}
	}
	e.endpoint = u
	close(e.ready)
	return nil
}

// Write implements [jsonrpc.Transport]. For a request it returns once the request is written, for
// another message once the server has accepted it.
func (e *Events) Write(ctx context.Context, m jsonrpc.Message) error {
	body, err := jsonrpc.Append(nil, &m)
	if err != nil {
		return err
	}
	select {
	case <-e.ready:
	case <-e.ctx.Done():
		return e.closedError()
	case <-ctx.Done():
		return ctx.Err()
	}
	running, cancel := context.WithTimeout(e.ctx, postTimeout)
	header := make(http.Header)
	mcphttp.SetTrace(header, m.Params)
	r, err := e.newCall(ctx, running, cancel, e.endpoint, body, header)
	if err != nil {
		return err
	}
	if m.Method == "" || m.ID == nil {
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return e.post(running, r)
	}
	return e.postRequest(ctx, running, r, bytes.Clone(m.ID), e.checkPost, cancel)
}

// checkPost returns an error for a request that was not accepted. A server that does not know the session has closed
// its stream or is about to.
func (e *Events) checkPost(resp *http.Response) error {
	if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone {
		return ErrSessionGone
	}
	return e.checkStatus(resp)
}

// EndSession does nothing: the session ends with the stream, which Close closes.
func (*Events) EndSession(context.Context) {}
