package peertest

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// listenTwice serves the same extensions with two hosts of one cluster, and returns a URL whose
// requests reach them in turn.
func (h *host) listenTwice(t *testing.T) string {
	t.Helper()
	hub := "127.0.0.1:" + processtest.FreePorts(t, 1)[0]
	invitation := filepath.Join(t.TempDir(), "other.creds")
	for _, argv := range [][]string{
		{h.program, "cluster", "init", "--listen", hub},
		{h.program, "cluster", "invite", "other"},
	} {
		out, err := h.command(argv).Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(argv[1:], " "), err, h.stderr)
		}
		if err := os.WriteFile(invitation, out, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := &host{
		program:    h.program,
		peers:      h.peers,
		extensions: h.extensions,
		home:       t.TempDir(),
		stderr:     newTranscript(),
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the other host's stderr:\n%s", other.stderr)
		}
	})
	return balance(t, h.listen(t), other.listen(t, "--cluster", invitation))
}

// balance returns the URL of a proxy that forwards requests to the servers in turn.
func balance(t *testing.T, servers ...string) string {
	t.Helper()
	var targets []*url.URL
	for _, s := range servers {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, u)
	}
	var turn atomic.Uint64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// a request on a connection that ends meanwhile could not be sent again
	direct := &http.Transport{DisableKeepAlives: true}
	forward := &httputil.ReverseProxy{
		Transport:     direct,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(targets[turn.Add(1)%uint64(len(targets))])
			r.Out.Host = r.In.Host
		},
	}
	proxy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Otherwise net/http closes the body of the request when the response begins, and the transport, which still
		// looks for the end of that body, closes the connection.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		forward.ServeHTTP(w, r)
	})}
	ended := make(chan error, 1)
	go func() { ended <- proxy.Serve(l) }()
	t.Cleanup(func() {
		proxy.Close()
		<-ended
	})
	return "http://" + l.Addr().String()
}

// TestBehindAProxy has every client list and call tools at two hosts behind a proxy that forwards requests to them in
// turn, whatever the session.
func TestBehindAProxy(t *testing.T) {
	h := newHost(t, bundled(t))
	url := h.listenTwice(t)
	for _, client := range clients {
		calls := make([]call, len(client.testCalls))
		for i, e := range client.testCalls {
			calls[i] = e.call
		}
		for _, p := range endpoints {
			if p.Transport == "stdio" || !slices.Contains(client.versions, p.Versions) {
				continue
			}
			t.Run(client.name+"/"+p.Transport+"/"+p.Versions, func(t *testing.T) {
				v := client.report(t, h, h.at(p, url), calls)
				if v.Version != "" && v.Version != p.speaks() {
					t.Errorf("the client and the host speak %s, want %s", v.Version, p.speaks())
				}
				for i, a := range v.Calls {
					client.testCalls[i].check(t, a)
				}
				if len(v.Calls) != len(calls) {
					t.Errorf("%d answers to %d calls", len(v.Calls), len(calls))
				}
			})
		}
	}
}

// TestConformanceBehindAProxy runs the official conformance suite against two hosts behind a proxy that forwards
// requests to them in turn.
func TestConformanceBehindAProxy(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, dir)
	folder(dir).add(t, "child", fmt.Sprintf("command = %q", buildEverything(t))+"\nprotocol = \"mcp\"")
	url := h.listenTwice(t)
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) { h.conforms(t, url+"/child/mcp", revision) })
	}
}

// TestTasksBehindAProxy runs tools as tasks at two hosts behind a proxy that forwards requests to them in turn.
func TestTasksBehindAProxy(t *testing.T) {
	extensions := folder(t.TempDir())
	h := newHost(t, string(extensions))
	s := everything(h.peers)
	extensions.add(t, s.id, "protocol = \"mcp\"\n"+launch(s.argv))
	extensions.add(t, "newer", "protocol = \"mcp\"\n"+scripted(t, "tasks"))
	h.runsTasks(t, h.listenTwice(t), s)
}
