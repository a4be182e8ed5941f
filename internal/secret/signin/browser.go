package signin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/oauth2"

	"github.com/exthost/exthost/internal/secret/logins"
)

// Browser lets the user approve in a browser on this machine, which is redirected to a server on loopback. Call
// Close when done.
type Browser struct {
	open  func(address string)
	state atomic.Pointer[string] // state of the expected redirect; nil if none
	back  chan url.Values
	at    string
	http  *http.Server
	done  chan struct{} // closed once the server has ended
}

const callback = "/callback"

// Limits of the server, since every program on this machine can connect to it.
const (
	maxConnections  = 256
	callbackTimeout = 5 * time.Second // per request, and per response
)

// NewBrowser listens on a loopback port, 0 for any. open shows the user an address.
func NewBrowser(port int, open func(address string)) (*Browser, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, fmt.Errorf("the browser cannot be sent back here: %w; free the port, or use --paste", err)
	}
	b := &Browser{
		open: open,
		back: make(chan url.Values, 1),
		at:   "http://" + l.Addr().String() + callback,
		done: make(chan struct{}),
	}
	b.http = &http.Server{
		Handler:        http.HandlerFunc(b.serve),
		ReadTimeout:    callbackTimeout,
		WriteTimeout:   callbackTimeout,
		MaxHeaderBytes: 64 << 10,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	b.http.SetKeepAlivesEnabled(false)
	go func() {
		defer close(b.done)
		_ = b.http.Serve(netutil.LimitListener(l, maxConnections)) // returns at Close
	}()
	return b, nil
}

// Close stops the server, after waiting up to a second for the browser to receive its page.
func (b *Browser) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if b.http.Shutdown(ctx) != nil {
		_ = b.http.Close()
	}
	<-b.done
}

func (b *Browser) redirect() string { return b.at }

func (b *Browser) approve(ctx context.Context, f *found, c *oauth2.Config) (*oauth2.Token, error) {
	return byCode(ctx, f, c, func(ctx context.Context, address, state string) (url.Values, error) {
		b.state.Store(&state)
		b.open(address)
		select {
		case back := <-b.back:
			return back, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
}

// serve handles the redirect. Only the first request with this login's state counts, because others could send
// codes of their own or errors to abort the login.
func (b *Browser) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	query := r.URL.Query()
	if r.Method != http.MethodGet || r.URL.Path != callback ||
		r.Host != strings.TrimSuffix(strings.TrimPrefix(b.at, "http://"), callback) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "Nothing is here.\n")
		return
	}
	if state := b.state.Load(); state == nil || !same(query.Get("state"), *state) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w,
			"This answer belongs to another login. exthost waits for the page that it has opened.\n")
		return
	}
	select {
	case b.back <- query:
		_, _ = io.WriteString(w,
			"exthost has the answer. You can close this page; the program that asked you to sign in shows the "+
				"result.\n")
	default:
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, "exthost has an answer already.\n")
	}
}

// Paste lets the user approve in any browser, and paste the address to which that browser is redirected. No server
// listens there.
type Paste struct {
	Port int // of the redirect URI; 0 means 8912. OAuth servers allow any loopback port.
	// Ask shows the user an address and returns the one that the user pasted.
	Ask func(ctx context.Context, address string) (string, error)
}

const pastePort = 8912

func (p *Paste) redirect() string {
	port := p.Port
	if port == 0 {
		port = pastePort
	}
	return fmt.Sprintf("http://127.0.0.1:%d%s", port, callback)
}

func (p *Paste) approve(ctx context.Context, f *found, c *oauth2.Config) (*oauth2.Token, error) {
	return byCode(ctx, f, c, func(ctx context.Context, address, _ string) (url.Values, error) {
		pasted, err := p.Ask(ctx, address)
		if err != nil {
			return nil, err
		}
		u, err := url.Parse(strings.TrimSpace(pasted))
		if err != nil || !strings.HasPrefix(strings.TrimSpace(pasted), p.redirect()) || u.Query().Get("state") == "" {
			return nil, errors.New("that is not the address that the browser was sent back to, which begins with " +
				p.redirect() + "?")
		}
		return u.Query(), nil
	})
}

// Browser returns a [Browser] on the configured port; else on the port of the earlier grant, because the redirect
// URI with that port is registered; else on any. open shows the user an address.
func (s *Server) Browser(earlier *logins.Grant, open func(address string)) (*Browser, error) {
	if s.Port != 0 {
		return NewBrowser(s.Port, open)
	}
	if b, err := NewBrowser(portOf(earlier), open); err == nil {
		return b, nil
	}
	return NewBrowser(0, open)
}

// portOf returns the port of g's redirect URI, or 0.
func portOf(g *logins.Grant) int {
	if g == nil {
		return 0
	}
	u, err := url.Parse(g.Client.Redirect)
	if err != nil {
		return 0
	}
	port, _ := strconv.Atoi(u.Port())
	return port
}
