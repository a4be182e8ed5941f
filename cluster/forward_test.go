package cluster_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/cluster"
	settings "github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/peers"
)

// serveHome runs a node that serves MCP over HTTP as a process. words are the node's name, its listen address and the
// servers.
func serveHome(words string) {
	fields := strings.Fields(words)
	dir, err := os.MkdirTemp("", "home")
	processtest.Check(err)
	defer os.RemoveAll(dir)
	n, err := cluster.New(nodeOptions(node{Name: fields[0], As: settings.ShareMine, URLs: fields[2:]}))
	processtest.Check(err)
	path, err := os.Executable()
	processtest.Check(err)
	h, err := openHost(n, dir, path, x)
	processtest.Check(err)
	server := &http.Server{
		Addr:    fields[1],
		Handler: mcpserver.New(h, mcpserver.Options{Remote: n.RemoteServers()}).Handler(""),
	}
	go func() { _ = server.ListenAndServe() }()
	processtest.Ready()
	_ = server.Close()
	processtest.Check(h.Close())
}

// frontOf serves MCP over HTTP for a host, and returns the URL.
func frontOf(t testing.TB, n *cluster.Node, h *exthost.Host) string {
	s := mcpserver.New(h, mcpserver.Options{Remote: n.RemoteServers()})
	server := httptest.NewServer(s.Handler(""))
	t.Cleanup(func() {
		s.Close()
		server.Close()
	})
	return server.URL
}

// visitor closes its connections after each request, because they would outlive a test.
var visitor = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// request sends a request of a session.
func request(ctx context.Context, t testing.TB, method, url, session, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	response, err := visitor.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func bodyOf(t testing.TB, r *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// begin initializes a session.
func begin(t testing.TB, url string) (session string) {
	t.Helper()
	var r *http.Response
	eventually(t, "the server listens", func() bool { // the process does not report it
		r, err := visitor.Get(url)
		if err == nil {
			r.Body.Close()
		}
		return err == nil
	})
	r = request(within(t), t, http.MethodPost, url, "",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	if session = r.Header.Get("Mcp-Session-Id"); session == "" {
		t.Fatalf("initialize: %s %s", r.Status, bodyOf(t, r))
	}
	request(within(t), t, http.MethodPost, url, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return session
}

const workCall = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ext_x_work","arguments":{},"_meta":{"progressToken":"p"}}}`

// Requests of a session get the same responses at another node as at its home, and streams pass through. Once
// the home is gone, the session is unknown.
func TestRequestsAreForwardedToTheirHome(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 3)
	address := "127.0.0.1:" + processtest.FreePorts(t, 1)[0]
	home := spawn(t, "home one "+address+" "+strings.Join(s.urls(), " "))
	n := join(t, s.urls(), "two", peers.AsMine)
	h := open(t, n, true)
	awaitTool(t, h, "ext_one_x_work", true)
	front := frontOf(t, n, h)
	session := begin(t, "http://"+address)

	stream := bufio.NewScanner(request(within(t), t, http.MethodGet, front, session, "").Body)
	if !stream.Scan() {
		t.Fatalf("the stream of the session: %v", stream.Err())
	}
	want := bodyOf(t, request(within(t), t, http.MethodPost, "http://"+address, session, workCall))
	got := bodyOf(t, request(within(t), t, http.MethodPost, front, session, workCall))
	if got != want || strings.Count(got, "notifications/progress") != 3 {
		t.Errorf("a forwarded call: %s, at home: %s", got, want)
	}
	big := strings.Repeat("0123456789abcdef", 1<<16)
	r := request(within(t), t, http.MethodPost, front, session,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ext_x_echo","arguments":{"big":"`+big+`"}}}`)
	if got := bodyOf(t, r); !strings.Contains(got, big) {
		t.Errorf("1 MiB there and back: %s, %d bytes", r.Status, len(got))
	}

	longest := `{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":"` + strings.Repeat("x", 16<<20)
	longest = longest[:16<<20-3] + `"}}`
	answered := request(within(t), t, http.MethodPost, front, session, longest)
	if !strings.Contains(bodyOf(t, answered), `"result":{}`) {
		t.Errorf("the longest body: %s", answered.Status)
	}

	file := t.TempDir() + "/notes"
	ctx, cancel := context.WithCancel(within(t))
	left := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, front,
			strings.NewReader(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"ext_x_note","arguments":{"file":"`+file+`","text":"a","wait":true}}}`))
		if err == nil {
			r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Session-Id": {session}}
			var response *http.Response
			if response, err = visitor.Do(r); err == nil {
				response.Body.Close()
			}
		}
		left <- err
	}()
	eventually(t, "the call runs", func() bool { return len(noted(t, file)) == 1 })
	cancel() // the client disconnects
	<-left
	eventually(t, "the call is cancelled at home", func() bool { return len(noted(t, file)) == 2 })

	lost := request(within(t), t, http.MethodPost, front, session,
		strings.Replace(workCall, `ext_x_work","arguments":{}`,
			`ext_x_note","arguments":{"file":"`+file+`","text":"b","wait":true}`, 1))
	home.Kill()
	if body := bodyOf(t, lost); !strings.Contains(body, `"message":"node one: `) ||
		!strings.Contains(body, `"node_lost"`) {
		t.Errorf("the home is killed during a call: %s", body)
	}
	began := time.Now()
	for stream.Scan() {
	}
	r = request(within(t), t, http.MethodPost, front, session, workCall)
	if body := bodyOf(t, r); r.StatusCode != http.StatusNotFound || !strings.Contains(body, "no such session") {
		t.Errorf("after the end of its home: %s %s", r.Status, body)
	}
	t.Logf("known after %v", time.Since(began).Round(time.Millisecond))
	again := request(within(t), t, http.MethodPost, front, begin(t, front), workCall)
	if got := bodyOf(t, again); !strings.Contains(got, "done") {
		t.Errorf("a new session: %s", got)
	}
}

// When a node leaves, each request of its clients is answered, or reports an unknown session. The clients
// then initialize at another node.
func TestHomeLeaves(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	home := join(t, s.urls(), "home", peers.AsMine)
	leaving := open(t, home, true)
	first := frontOf(t, home, leaving)
	n := join(t, s.urls(), "two", peers.AsMine)
	h := open(t, n, true)
	awaitTool(t, h, "ext_home_x_work", true)
	front := frontOf(t, n, h)
	session := begin(t, first)
	var clients sync.WaitGroup
	served := make(chan struct{}, 1<<16)
	for i := range 8 {
		clients.Go(func() {
			for k := 0; ; k++ {
				r, err := http.NewRequestWithContext(within(t), http.MethodPost, front,
					strings.NewReader(
						fmt.Sprintf(
							`{"jsonrpc":"2.0","id":"%d/%d","method":"tools/call","params":{"name":"ext_x_work","arguments":{}}}`, i, k)))
				if err != nil {
					t.Error(err)
					return
				}
				r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Session-Id": {session}}
				response, err := visitor.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				switch {
				case err == nil && response.StatusCode == http.StatusNotFound:
					return
				case err != nil || strings.Contains(string(body), "shutting_down") ||
					response.StatusCode != http.StatusOK:
					t.Errorf("%s %s, %v", response.Status, body, err)
					return
				}
				served <- struct{}{}
			}
		})
	}
	for range 16 {
		<-served
	}
	if err := leaving.Close(); err != nil {
		t.Error(err)
	}
	clients.Wait()
}

// A request that the forwarding node ends, because its caller's time is up or the node stops, gets an error, and a
// stream ends, as they would at the home.
func TestFrontEndsRequests(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	home := join(t, s.urls(), "home", peers.AsMine)
	first := frontOf(t, home, open(t, home, true))
	n := join(t, s.urls(), "two", peers.AsMine)
	h := open(t, n, true)
	awaitTool(t, h, "ext_home_x_work", true)
	until, end := context.WithCancel(context.Background())
	defer end()
	m := mcpserver.New(h, mcpserver.Options{Remote: n.RemoteServers()})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(until, cancel)()
		m.Handler("").ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(func() {
		m.Close()
		front.Close()
	})
	session, file := begin(t, first), t.TempDir()+"/notes"
	call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ext_x_note","arguments":{"file":"` + file +
		`","text":"a","wait":true}`
	object := make(chan *http.Response, 1)
	go func() {
		r, err := http.NewRequestWithContext(within(t), http.MethodPost, front.URL, strings.NewReader(call+`}}`))
		if err == nil {
			r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Session-Id": {session}}
			var response *http.Response
			if response, err = visitor.Do(r); err == nil {
				object <- response
			}
		}
		if err != nil {
			t.Error(err)
			close(object)
		}
	}()
	eventually(t, "the call runs", func() bool { return len(noted(t, file)) == 1 })
	stream := request(within(t), t, http.MethodGet, front.URL, session, "")
	events := request(within(t), t, http.MethodPost, front.URL, session,
		strings.Replace(call, `7`, `8`, 1)+`,"_meta":{"progressToken":"p"}}}`)
	end()
	for what, r := range map[string]*http.Response{"an object": <-object, "events": events} {
		if r == nil {
			continue
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if !strings.Contains(string(body), `"message":"the server has ended the request`) ||
			!strings.Contains(string(body), `"outcome":"unknown"`) || err != nil {
			t.Errorf("%s: %s %q, %v", what, r.Status, body, err)
		}
	}
	if body, err := io.ReadAll(stream.Body); err != nil {
		t.Errorf("the stream of the session: %q, %v", body, err)
	}
}

// For another node, a node serves nothing but requests of existing sessions.
func TestHostileNode(t *testing.T) {
	processtest.Leaks(t)
	s := startServers(t, 1)
	home := join(t, s.urls(), "home", peers.AsMine)
	h := open(t, home, true)
	_ = frontOf(t, home, h)
	bare := join(t, s.urls(), "bare", peers.AsMine)
	open(t, bare, false) // serves no sessions
	n := join(t, s.urls(), "hostile", peers.AsMine)
	awaitTool(t, open(t, n, false), "ext_home_x_work", true)
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ext_x_work","arguments":{}}}`
	for what, request := range map[string]string{
		"a call": `{"endpoint":"mcp","method":"POST","header":{"Content-Type":["application/json"]}}` + "\n" +
			call,
		"a modern call": `{"endpoint":"mcp","method":"POST","header":{"Content-Type":["application/json"],"Mcp-Protocol-Version":["2026-07-28"],"Mcp-Method":["tools/call"],"Mcp-Name":["ext_x_work"]}}` + "\n" + call,
		"no request":    "\n\n\n",
		"nothing":       "",
	} {
		w := httptest.NewRecorder()
		began, err := n.RemoteServers().Forward(within(t), w, home.RemoteServers().Home(), []byte(request))
		if !began || err != nil || w.Code < 400 {
			t.Errorf("%s: %d %s, %v", what, w.Code, w.Body, err)
		}
	}
	for _, to := range []string{bare.RemoteServers().Home(), n.RemoteServers().Home(), "aaaaaaaaaa", ""} {
		w := httptest.NewRecorder()
		if began, err := n.RemoteServers().Forward(within(t), w, to, []byte(call)); began || err == nil {
			t.Errorf("to %q: %d %s", to, w.Code, w.Body)
		}
	}
}
