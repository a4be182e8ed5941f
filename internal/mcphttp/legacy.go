package mcphttp

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/exthost/exthost/internal/jsonrpc"
)

// Events is a [jsonrpc.Transport] over HTTP with server-sent events, the transport
// of revision 2024-11-05, as its client. One stream brings everything, after the
// URL to post to; its end is the end of the session.
type Events struct {
	client
	ready    chan struct{} // closed once endpoint is known
	endpoint *url.URL
}

// NewEvents returns a transport that is connecting. The error is a URL that is none.
func NewEvents(o ClientOptions) (*Events, error) {
	e := &Events{ready: make(chan struct{})}
	if err := e.init(o); err != nil {
		return nil, err
	}
	e.start(func() { e.fail(e.listen()) })
	return e, nil
}

// listen brings the messages of the one stream and returns why it ended.
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
	if err := e.accepted(resp); err != nil {
		return err
	}
	if media := mediaType(resp); media != "text/event-stream" {
		return &BrokenError{What: "the server answered with content type " + quoted(media) + `, not with an event stream; check the url, and kind: a newer server needs kind = "http"`}
	}
	events := newEventReader(resp.Body, e.o.MaxBytes)
	for {
		got, err := events.next()
		switch {
		case errors.Is(err, ErrTooLarge):
			return &BrokenError{"an event is too large for max_line_bytes", err}
		case err != nil:
			return ErrStreamEnded
		case got.name == "endpoint":
			if err := e.open(string(got.data)); err != nil {
				return err
			}
		default:
			if m, ok := got.message(); ok {
				e.deliver(m)
			}
		}
	}
}

// open notes where to post to. Another server would get the credentials, so the
// place must be of the same origin.
func (e *Events) open(place string) error {
	if e.endpoint != nil {
		return nil
	}
	u, err := e.url.Parse(place)
	if err != nil || u.Scheme != e.url.Scheme || u.Host != e.url.Host {
		return &BrokenError{What: "the server wants messages posted to another place than itself, which is refused"}
	}
	e.endpoint = u
	close(e.ready)
	return nil
}

// Write implements [jsonrpc.Transport]. It returns once a request is written and
// once anything else is accepted.
func (e *Events) Write(ctx context.Context, m jsonrpc.Message) error {
	body, err := jsonrpc.Append(nil, &m)
	if err != nil {
		return err
	}
	select {
	case <-e.ready:
	case <-e.ctx.Done():
		return e.over()
	case <-ctx.Done():
		return ctx.Err()
	}
	running, cancel := context.WithTimeout(e.ctx, noticeTimeout)
	header := make(http.Header)
	nameTrace(header, m.Params)
	r, err := e.newRequest(running, http.MethodPost, e.endpoint, body, header)
	if err != nil {
		cancel()
		return err
	}
	if m.Method == "" || m.ID == nil {
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return e.tell(running, r)
	}
	return e.ask(ctx, running, r, bytes.Clone(m.ID), e.taken, cancel)
}

// taken is why a message was not accepted. A session that is not known any more
// has lost its stream, or is about to.
func (e *Events) taken(resp *http.Response) error {
	if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone {
		return ErrSessionGone
	}
	return e.accepted(resp)
}

// Hangup does nothing: to close the stream is to end the session.
func (*Events) Hangup(context.Context) {}
