package httpserver

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/internal/secret/accesstoken"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

// peered is a backend that records the sessions of its clients.
type peered struct {
	*fake
	sessions chan *protocol.Session
}

func (p *peered) Attach(_ context.Context, s *protocol.Session) error {
	p.sessions <- s
	return nil
}

// street is a group of servers, by home, that reach each other without a network.
type street map[string]func(ctx context.Context, w http.ResponseWriter, request []byte)

// neighbor is the mcpserver.RemoteServers of one server in a street.
type neighbor struct {
	street
	home string
}

func (n neighbor) Home() string { return n.home }

func (n neighbor) Homes() []string { return nil }

func (n neighbor) ServeForwarded(serve func(ctx context.Context, w http.ResponseWriter, request []byte)) {
	n.street[n.home] = serve
}

func (n neighbor) Forward(ctx context.Context, w http.ResponseWriter, home string, request []byte) (bool, error) {
	n.street[home](ctx, w, request)
	return true, ctx.Err()
}

// bubble runs servers with in-memory connections, for tests with fake time.
type bubble struct {
	http.Client
	listeners map[string]pipes // by host
}

func newBubble(t *testing.T) *bubble {
	b := &bubble{listeners: make(map[string]pipes)}
	transport := &http.Transport{DialContext: func(_ context.Context, _, at string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(at)
		here, there := net.Pipe()
		b.listeners[host] <- there
		return here, err
	}}
	b.Transport, b.Timeout = transport, time.Hour // fake time
	t.Cleanup(transport.CloseIdleConnections)
	return b
}

// serve runs a server at a host until the end of the test.
func (b *bubble) serve(t *testing.T, host string, o Options) {
	l := make(pipes)
	b.listeners[host] = l
	o.AllowedHosts = []string{host}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := New(o)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func (b *bubble) send(t *testing.T, method, url string, h http.Header, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = h.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := b.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// open sends a request. ended receives the whole body at its end.
func (b *bubble) open(t *testing.T, method, url string, h http.Header, body string) (ended <-chan string) {
	t.Helper()
	over := make(chan string, 1)
	go func() {
		answer := b.send(t, method, url, h, body)
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s %s: %s", method, url, answer.Status)
		}
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Errorf("%s %s is cut: %v", method, url, err)
		}
		over <- string(text)
	}()
	return over
}

const (
	hangCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"hang"}}`
	listen   = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` +
		`"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
)

// TestStreamsEndWithTheirAccessToken checks that streams end when the token that opened them expires, even on another
// server than the session's. Calls in flight go on, and the session stays for the next token.
func TestStreamsEndWithTheirAccessToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lasts = 10 * time.Minute
		i := &issuer{url: "https://auth.example"}
		i.makeKey(t)
		backend, all, web := &peered{newFake(), make(chan *protocol.Session, 64)}, make(street), newBubble(t)
		for _, host := range []string{"home", "door"} {
			web.serve(t, host, Options{
				Backend: backend,
				MCP:     mcpserver.Options{Remote: neighbor{all, host}},
				OAuth:   &OAuth{Resource: resource, Issuer: i.url, Client: &http.Client{Transport: i}},
			})
		}
		token := i.header("ada", resource, "", lasts)
		session := func() (http.Header, *protocol.Session) {
			h := token.Clone()
			h.Set("Mcp-Session-Id",
				web.send(t, http.MethodPost, "http://home/mcp", h, initialize).Header.Get("Mcp-Session-Id"))
			web.send(t, http.MethodPost, "http://home/mcp", h, listTools)
			return h, <-backend.sessions
		}
		here, _ := session()
		there, peer := session()
		streams := map[string]<-chan string{
			"GET /mcp":           web.open(t, http.MethodGet, "http://home/mcp", here, ""),
			"GET /mcp elsewhere": web.open(t, http.MethodGet, "http://door/mcp", there, ""),
			"GET /sse":           web.open(t, http.MethodGet, "http://home/sse", token, ""),
			"a subscription": web.open(t, http.MethodPost, "http://home/mcp", modern(token, "subscriptions/listen"),
				listen),
		}
		calls := map[string]<-chan string{
			"a call":           web.open(t, http.MethodPost, "http://home/mcp", here, hangCall),
			"a call elsewhere": web.open(t, http.MethodPost, "http://door/mcp", there, hangCall),
		}
		for range calls {
			<-backend.hanging
		}
		time.Sleep(lasts + accesstoken.Skew - time.Second)
		synctest.Wait()
		for what, ended := range streams {
			if len(ended) > 0 {
				t.Errorf("%s ends before its token", what)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for what, ended := range streams {
			select {
			case got := <-ended:
				if what == "a subscription" && !strings.Contains(got, `"id":1,"result":`) {
					t.Errorf("%s ends without its result: %s", what, got)
				}
			default:
				t.Errorf("%s outlives its token", what)
			}
		}
		if r := web.send(t, http.MethodGet, "http://door/mcp", there, ""); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("the token after its end: %s", r.Status)
		}

		// Messages sent meanwhile wait for the next stream.
		if err := peer.Client.Notify(t.Context(), protocol.MethodToolsListChanged, nil); err != nil {
			t.Error(err)
		}
		there.Set("Authorization", i.header("ada", resource, "", lasts).Get("Authorization"))
		again := bufio.NewReader(web.send(t, http.MethodGet, "http://door/mcp", there, "").Body)
		for line := ""; !strings.Contains(line, protocol.MethodToolsListChanged); {
			var err error
			if line, err = again.ReadString('\n'); err != nil {
				t.Fatalf("the stream of the next token: %v", err)
			}
		}
		close(backend.finish)
		for what, ended := range calls {
			if got := <-ended; !strings.Contains(got, `"content":[]`) {
				t.Errorf("%s is answered %s", what, got)
			}
		}
	})
}
