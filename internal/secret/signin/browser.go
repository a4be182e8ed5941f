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
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/oauth2"
)

// Browser has the user approve in the browser of this machine, which is sent back to a server on
// loopback. Close it.
type Browser struct {
	open  func(address string)
	state atomic.Pointer[string] // of the answer that is waited for; nil: of none
	back  chan url.Values
	at    string
	http  *http.Server
	done  chan struct{} // closed once the server has ended
}

const callback = "/callback"

// The bounds of the server, to which every program of the machine can connect.
const (
	maxConnections  = 256
	callbackTimeout = 5 * time.Second // of one request, and of its answer
)

// NewBrowser listens on a port of loopback; 0 is any. open shows the user an address.
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
		_ = b.http.Serve(netutil.LimitListener(l, maxConnections)) // until Close
	}()
	return b, nil
}

// Close ends the server once the browser has its page, which it waits for at most a second.
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

// serve answers the browser. The first answer with the state of this login counts. Others could
// send theirs, for a login of theirs or to end this one: they change nothing.
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
			"exthost has the answer. You can close this page; whoever asked you to sign in says what came of it.\n")
	default:
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, "exthost has an answer already.\n")
	}
}

// Paste has the user approve in any browser, and paste the address that the browser was sent back
// to, where nothing answers.
type Paste struct {
	Port int // of that address; 0 is 8912, which any registration of a client on loopback allows
	// Ask shows the user the address to open, and returns the one that the user has pasted.
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
