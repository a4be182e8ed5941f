package mcphttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
)

const (
	dialTimeout   = 10 * time.Second // for a connection, and again for its TLS
	noticeTimeout = 10 * time.Second // for the server to accept what it need not answer
	idleConn      = 60 * time.Second // how long an unused connection is kept
	maxHeaders    = 64 << 10         // bytes of headers in an answer
	maxRedirects  = 3
)

// ClientOptions says how to reach a server.
type ClientOptions struct {
	URL    string      // absolute, http or https
	Header http.Header // sent with every request; nil is none
	// Token returns the bearer token of a request, asked for each time so that a
	// new one takes effect. Nil sends none.
	Token func() (string, error)
	// MaxBytes bounds one answer and one event. 0 is 16 MiB.
	MaxBytes int
}

const defaultMaxBytes = 16 << 20

// client is what both transports that reach a server have in common. Its
// connections are its own, trust the system's certificates and go through the
// proxy that the environment states.
type client struct {
	inbox
	o       ClientOptions
	url     *url.URL
	http    *http.Client
	in, out atomic.Uint64 // bytes of bodies
}

func (c *client) init(o ClientOptions) error {
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("the url is not an absolute http or https url")
	}
	c.o, c.url = o, u
	dialer := &net.Dialer{Timeout: dialTimeout}
	c.http = &http.Client{
		CheckRedirect: sameOrigin,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: dialTimeout, IdleConnTimeout: idleConn, MaxIdleConnsPerHost: 16,
			MaxResponseHeaderBytes: maxHeaders,
		},
	}
	c.inbox.init()
	return nil
}

// sameOrigin follows a redirect that stays with the server and keeps the request:
// elsewhere the credentials, and what is asked, are nobody's business.
func sameOrigin(r *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > maxRedirects || r.URL.Scheme != first.URL.Scheme || r.URL.Host != first.URL.Host || r.Method != first.Method {
		return http.ErrUseLastResponse
	}
	return nil
}

// Close implements [jsonrpc.Transport]. It waits for all requests to end.
func (c *client) Close() error {
	c.end()
	c.http.CloseIdleConnections()
	return nil
}

// Traffic returns the bytes of the bodies so far.
func (c *client) Traffic() jsonrpc.Traffic {
	return jsonrpc.Traffic{BytesIn: c.in.Load(), BytesOut: c.out.Load()}
}

// newRequest makes a request with the headers that all have.
func (c *client) newRequest(ctx context.Context, method string, u *url.URL, body []byte, header http.Header) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range []http.Header{c.o.Header, header} {
		for name, values := range h {
			r.Header[name] = values
		}
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	} else {
		r.Body = http.NoBody
	}
	if c.o.Token != nil {
		token, err := c.o.Token()
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	c.out.Add(uint64(len(body)))
	return r, nil
}

// do sends a request and waits for the headers of its answer. An error before
// there was a connection is an *UnreachableError, one after it a *BrokenError.
func (c *client) do(r *http.Request, connected func()) (*http.Response, error) {
	var reached atomic.Bool
	trace := &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { reached.Store(true) },
		WroteRequest: func(httptrace.WroteRequestInfo) { connected() },
	}
	ctx := r.Context()
	resp, err := c.http.Do(r.WithContext(httptrace.WithClientTrace(ctx, trace)))
	switch {
	case err == nil:
		resp.Body = &countedBody{resp.Body, &c.in}
		return resp, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // the rest would show the URL
	}
	if !reached.Load() {
		return nil, &UnreachableError{public(c.url), err}
	}
	return nil, &BrokenError{"the connection broke before the answer", err}
}

type countedBody struct {
	io.ReadCloser
	n *atomic.Uint64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(uint64(n))
	return n, err
}

// ask posts a request and returns once it is written. What comes back goes to then,
// in a goroutine of its own; the error of that, or of the connection, is delivered
// as the request's outcome. running is the exchange's, and is ended by done.
func (c *client) ask(ctx, running context.Context, r *http.Request, id json.RawMessage, then func(*http.Response) error, done func()) error {
	written, kept := make(chan struct{}), make(chan error, 1)
	isWritten := sync.OnceFunc(func() { close(written) })
	started := c.start(func() {
		defer done()
		resp, err := c.do(r, isWritten)
		if err != nil && (unsent(err) || running.Err() != nil) {
			kept <- err
			c.lost(err)
			return
		}
		isWritten()
		if err == nil {
			err = then(resp)
			_ = resp.Body.Close()
		}
		if err != nil && running.Err() == nil {
			c.deliver(jsonrpc.Message{ID: id, Invalid: err})
		}
		c.lost(err)
	})
	if !started {
		done()
		return c.over()
	}
	select {
	case <-written:
		return nil
	case err := <-kept:
		return err
	case <-ctx.Done():
	}
	done()
	select {
	case <-written:
		return jsonrpc.MaybeWritten(ctx.Err())
	case <-kept:
		return ctx.Err()
	}
}

// tell posts what has no answer and waits until the server has accepted it.
func (c *client) tell(ctx context.Context, r *http.Request) error {
	resp, err := c.do(r, func() {})
	if err == nil {
		defer resp.Body.Close()
		err = c.accepted(resp)
	}
	c.lost(err)
	return err
}

// accepted is why resp is not what follows a request that was taken in.
func (c *client) accepted(resp *http.Response) error {
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	if resp.StatusCode == http.StatusNotFound && resp.Request.Header.Get(SessionHeader) != "" {
		return ErrSessionGone
	}
	return statusError(resp)
}

// lost ends the transport when err means that it has no more use.
func (c *client) lost(err error) {
	if unsent(err) || errors.Is(err, ErrSessionGone) {
		c.fail(err)
	}
}

// unsent reports whether err kept a request from being written.
func unsent(err error) bool {
	var unreachable *UnreachableError
	return errors.As(err, &unreachable)
}

// pause waits for d; false when the transport ends first.
func (c *client) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// mediaType is the content type of r without its parameters.
func mediaType(r *http.Response) string {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return media
}
