// Package mcpclient reaches MCP servers over HTTP. [Streamable] and [Events] are
// [jsonrpc.Transport]s for one server each: they keep its session and reconnect
// streams that break.
package mcpclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcphttp"
)

const (
	dialTimeout  = 10 * time.Second // for a connection, and again for its TLS handshake
	postTimeout  = 10 * time.Second // for the server to accept a message that has no answer
	idleConn     = 60 * time.Second // until an unused connection is closed
	maxHeaders   = 64 << 10         // bytes of headers in an answer
	maxRedirects = 3
)

// Options says how to reach a server.
type Options struct {
	URL    string      // absolute, http or https
	Header http.Header // sent with every request; nil is none
	// Token returns the bearer token. It is called for each request, so that a new
	// token takes effect. Nil sends none, and so does "".
	Token func(ctx context.Context) (string, error)
	// Renew returns another token than the one that the server has refused, and the request
	// is sent once more with it. challenge are the values of the answer's WWW-Authenticate
	// header. Nil: there is no other token.
	Renew func(ctx context.Context, refused string, challenge []string) (string, error)
	// Refused returns the error of a request whose token, which Renew has given, the server
	// has refused too. Set it with Renew.
	Refused func(token string) error
	// MaxBytes bounds one answer and one event. 0 is 16 MiB.
	MaxBytes int
	// GoneGrace is how long requests in flight may still be answered once the session or the server is
	// gone. The transport ends sooner when none is left. 0 is 5 s.
	GoneGrace time.Duration
}

const (
	defaultMaxBytes  = 16 << 20
	defaultGoneGrace = 5 * time.Second
)

// client is the part that both transports share. Its connections are not shared with
// others, trust the system's certificates, and use the proxy of the environment.
type client struct {
	inbox
	o      Options
	url    *url.URL
	http   *http.Client
	onLost func(cause error) // ends the transport: its server is gone, or its session
	// outlived reports whether a server has refused r with 401 because of its session. Nil: it never does.
	outlived func(r *http.Request) bool
	in, out  atomic.Uint64 // bytes of bodies
}

func (c *client) init(o Options) error {
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultMaxBytes)
	o.GoneGrace = cmp.Or(o.GoneGrace, defaultGoneGrace)
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("the url is not an absolute http or https url")
	}
	c.o, c.url = o, u
	dialer := &net.Dialer{Timeout: dialTimeout}
	c.http = &http.Client{
		CheckRedirect: sameOrigin,
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    dialTimeout,
			IdleConnTimeout:        idleConn,
			MaxIdleConnsPerHost:    16,
			MaxResponseHeaderBytes: maxHeaders,
		},
	}
	c.inbox.init()
	c.onLost = c.fail
	return nil
}

// sameOrigin follows a redirect only within the origin and with the same method: no
// other server may see the credentials and the request.
func sameOrigin(r *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > maxRedirects || r.URL.Scheme != first.URL.Scheme || r.URL.Host != first.URL.Host ||
		r.Method != first.Method {
		return http.ErrUseLastResponse
	}
	return nil
}

// Close implements [jsonrpc.Transport]. It waits for all requests to end.
func (c *client) Close() error {
	c.fail(jsonrpc.ErrClosed)
	<-c.tasks.Close()
	c.http.CloseIdleConnections()
	return nil
}

// Traffic returns the bytes of all bodies so far.
func (c *client) Traffic() jsonrpc.Traffic {
	return jsonrpc.Traffic{BytesIn: c.in.Load(), BytesOut: c.out.Load()}
}

// newRequest returns a request with the headers that every request has.
func (c *client) newRequest(ctx context.Context, method string, u *url.URL, body []byte, header http.Header,
) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range []http.Header{c.o.Header, header} {
		maps.Copy(r.Header, h)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	} else {
		r.Body = http.NoBody
	}
	if c.o.Token != nil {
		token, err := c.o.Token(ctx)
		if err != nil {
			return nil, &CredentialsError{err}
		}
		if token != "" {
			r.Header.Set("Authorization", bearer+token)
		}
	}
	c.out.Add(uint64(len(body)))
	return r, nil
}

// bearer begins the header of a token.
const bearer = "Bearer "

// do sends a request and waits for the headers of the answer, once more with another token if
// the server refuses the first. written is called once the request is written. The error is
// an *UnreachableError without a connection, a *CredentialsError without another token, ErrSessionGone
// when the server refuses the session with 401, else a *BrokenError.
func (c *client) do(r *http.Request, written func()) (*http.Response, error) {
	resp, err := c.sendInSession(r, written)
	if err != nil || c.o.Renew == nil {
		return resp, err
	}
	challenge := resp.Header.Values("WWW-Authenticate")
	if resp.StatusCode != http.StatusUnauthorized && !wantsScopes(resp.StatusCode, challenge) {
		return resp, nil
	}
	token, err := c.o.Renew(r.Context(), strings.TrimPrefix(r.Header.Get("Authorization"), bearer), challenge)
	if err == nil && token == "" {
		return resp, nil
	}
	_ = resp.Body.Close()
	if err != nil {
		return nil, &CredentialsError{err}
	}
	again := r.Clone(r.Context())
	if again.Body, err = r.GetBody(); err != nil {
		return nil, err
	}
	again.Header.Set("Authorization", bearer+token)
	resp, err = c.sendInSession(again, written)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		_ = resp.Body.Close()
		return nil, &CredentialsError{c.o.Refused(token)}
	}
	return resp, err
}

// sendInSession sends a request once. The error is ErrSessionGone when the server refuses the session with
// 401: no other token helps then.
func (c *client) sendInSession(r *http.Request, written func()) (*http.Response, error) {
	resp, err := c.send(r, written)
	if err == nil && resp.StatusCode == http.StatusUnauthorized && c.outlived != nil && c.outlived(r) {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%w: it answers %s, and takes the same credentials in a new session", ErrSessionGone,
			resp.Status)
	}
	return resp, err
}

// wantsScopes reports whether a server forbids a request for want of scopes, which a user can be
// asked for (RFC 6750, section 3.1). What it forbids for other reasons stays so with any token.
func wantsScopes(status int, challenge []string) bool {
	return status == http.StatusForbidden && strings.Contains(strings.Join(challenge, ","), "insufficient_scope")
}

// send sends a request once.
func (c *client) send(r *http.Request, written func()) (*http.Response, error) {
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { connected.Store(true) },
		WroteRequest: func(httptrace.WroteRequestInfo) { written() },
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
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the URL, which may hold secrets
	}
	if !connected.Load() {
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

// postRequest posts a request with the given id and returns once it is written. A
// goroutine passes the answer to handle; the error of that or of the connection
// becomes the outcome of the request. The exchange runs under running, and done ends
// it.
func (c *client) postRequest(ctx, running context.Context, r *http.Request, id json.RawMessage,
	handle func(*http.Response) error, done func()) error {
	written, failed := make(chan struct{}), make(chan error, 1)
	setWritten := sync.OnceFunc(func() { close(written) })
	started := c.tasks.Go(func() {
		defer done()
		resp, err := c.do(r, setWritten)
		if err != nil && (isUnreachable(err) || running.Err() != nil) {
			failed <- err
			c.failOn(err)
			return
		}
		setWritten()
		if err == nil {
			err = handle(resp)
			_ = resp.Body.Close()
		}
		if err != nil && running.Err() == nil {
			c.deliver(jsonrpc.Message{ID: id, Invalid: err})
		}
		c.failOn(err)
	})
	if !started {
		done()
		return c.closedError()
	}
	select {
	case <-written:
		return nil
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	done()
	select {
	case <-written:
		return jsonrpc.MaybeWritten(ctx.Err())
	case <-failed:
		return ctx.Err()
	}
}

// post posts a message that has no answer and waits until the server accepts it. A server that it does
// not reach may be reached by the next request, and requests in flight may still be answered.
func (c *client) post(ctx context.Context, r *http.Request) error {
	resp, err := c.do(r, func() {})
	if err == nil {
		defer resp.Body.Close()
		err = c.checkStatus(resp)
		c.failOn(err)
	}
	return err
}

// checkStatus returns an error for an answer with another status than 2xx. A 404 to a request
// with a session id means that the session is gone, as MCP states.
func (c *client) checkStatus(resp *http.Response) error {
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	if resp.StatusCode == http.StatusNotFound && resp.Request.Header.Get(mcphttp.SessionHeader) != "" {
		return ErrSessionGone
	}
	return newStatusError(resp)
}

// failOn ends the transport if err means that no later request can succeed.
func (c *client) failOn(err error) {
	if isUnreachable(err) || errors.Is(err, ErrSessionGone) {
		c.onLost(err)
	}
}

// isUnreachable reports whether err kept a request from being written.
func isUnreachable(err error) bool {
	var unreachable *UnreachableError
	return errors.As(err, &unreachable)
}
