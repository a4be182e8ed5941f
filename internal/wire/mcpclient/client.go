// Package mcpclient connects to MCP servers over HTTP. [Streamable] and [Events] are [jsonrpc.Transport]s for one
// server each: they keep the session, and reconnect streams that break.
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

	"golang.org/x/net/http/httpguts"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcphttp"
)

const (
	dialTimeout  = 10 * time.Second // for a connection, and again for its TLS handshake
	postTimeout  = 10 * time.Second // for the server to accept a message that needs no answer
	idleConn     = 60 * time.Second // until an unused connection is closed
	maxHeaders   = 64 << 10         // bytes of headers of an answer
	maxRedirects = 3
)

// Options configures the connection to a server.
type Options struct {
	URL    string      // absolute http or https URL
	Header http.Header // sent with every request
	// Token returns the bearer token, or "" for none. It is called for every request, so that a new token takes
	// effect. Nil: none.
	Token func(ctx context.Context) (string, error)
	// Renew returns another token after the server has refused one; the request is then repeated once. challenge are
	// the values of the answer's WWW-Authenticate header. Nil: there is no other token.
	Renew func(ctx context.Context, refused string, challenge []string) (string, error)
	// Refused returns the error of a request whose renewed token was refused too. Required with Renew.
	Refused func(token string) error
	// Secrets are the names of the stored secrets that requests have, for error texts.
	Secrets []string
	// MaxBytes is the max size of one answer and of one event. 0 means 16 MiB.
	MaxBytes int
	// GoneGrace is how long requests in flight may still be answered once the session or the server is gone. 0 means
	// 5 s. The transport ends earlier if none is in flight.
	GoneGrace time.Duration
}

const (
	defaultMaxBytes  = 16 << 20
	defaultGoneGrace = 5 * time.Second
)

// client is the common part of both transports. It does not share connections, trusts the system's certificates, and
// uses the proxy of the environment.
type client struct {
	inbox
	o      Options
	url    *url.URL
	http   *http.Client
	onLost func(cause error) // ends the transport after the loss of its server or session
	// outlived reports whether a 401 to r is due to the end of the session. Nil: never.
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

// sameOrigin follows redirects only within the origin and with the same method, so that no other server sees the
// credentials and the request.
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

// newRequest returns a request with the common headers.
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
		if err := authorize(r, token); err != nil {
			return nil, err
		}
	}
	c.out.Add(uint64(len(body)))
	return r, nil
}

// newCall returns a POST that runs with running, which cancel ends. While the request has no token yet, the end of ctx,
// the caller's, ends it too: a token may take long. On error, running has ended.
func (c *client) newCall(ctx, running context.Context, cancel func(), u *url.URL, body []byte, header http.Header,
) (*http.Request, error) {
	unbind := context.AfterFunc(ctx, cancel)
	r, err := c.newRequest(running, http.MethodPost, u, body, header)
	unbind()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return r, nil
}

// bearer is the prefix of a token in the Authorization header.
const bearer = "Bearer "

// authorize sets the token of a request; "" means none.
func authorize(r *http.Request, token string) error {
	switch {
	case !httpguts.ValidHeaderFieldValue(token):
		return &CredentialsError{errors.New("the token has a line break or another character that no header can have")}
	case token != "":
		r.Header.Set("Authorization", bearer+token)
	}
	return nil
}

// do sends a request and waits for the headers of the answer. If the server refuses the token, the request is
// repeated once with a renewed one. written is called once the request is written. The error is an *UnreachableError
// if there is no connection, a *CredentialsError if there is no accepted token, ErrSessionGone if a 401 is due to the
// end of the session, else a *BrokenError.
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
	if err := authorize(again, token); err != nil {
		return nil, err
	}
	resp, err = c.sendInSession(again, written)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		_ = resp.Body.Close()
		return nil, &CredentialsError{c.o.Refused(token)}
	}
	return resp, err
}

// sendInSession sends a request once. The error is ErrSessionGone if a 401 is due to the end of the session: then
// another token would not help.
func (c *client) sendInSession(r *http.Request, written func()) (*http.Response, error) {
	resp, err := c.send(r, written)
	if err == nil && resp.StatusCode == http.StatusUnauthorized && c.outlived != nil && c.outlived(r) {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%w: it answers %s, and takes the same credentials in a new session", ErrSessionGone,
			resp.Status)
	}
	return resp, err
}

// wantsScopes reports whether a server refused a request for missing scopes (RFC 6750, section 3.1), which a user can
// grant. A 403 for another reason cannot be cured by another token.
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
		err = wrapped.Err // the URL may hold secrets
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

// postRequest posts a request with the given id and returns once it is written. A goroutine passes
// the answer to handle, and calls done at the end. An error of handle or of the connection becomes
// the outcome of the request, unless running, the context of the exchange, has ended.
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

// post posts a message without an answer and waits until the server accepts it. An unreachable server does not end
// the transport here: a later request may reach it, and requests in flight may still be answered.
func (c *client) post(ctx context.Context, r *http.Request) error {
	resp, err := c.do(r, func() {})
	if err == nil {
		defer resp.Body.Close()
		err = c.checkStatus(resp)
		c.failOn(err)
	}
	return err
}

// checkStatus returns an error for any status but 2xx. A 404 to a request with a session id means that the session is
// gone (MCP, basic/transports).
func (c *client) checkStatus(resp *http.Response) error {
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	if resp.StatusCode == http.StatusNotFound && resp.Request.Header.Get(mcphttp.SessionHeader) != "" {
		return ErrSessionGone
	}
	return newStatusError(resp, c.o.Secrets)
}

// failOn ends the transport if err means that no later request can succeed.
func (c *client) failOn(err error) {
	if isUnreachable(err) || errors.Is(err, ErrSessionGone) {
		c.onLost(err)
	}
}

// isUnreachable reports whether err means that no request was written.
func isUnreachable(err error) bool {
	var unreachable *UnreachableError
	return errors.As(err, &unreachable)
}
