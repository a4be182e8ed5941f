package httpserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"iter"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

func TestHealthAndReadiness(t *testing.T) {
	ready := make(chan error, 1)
	addr := serve(t, Options{Backend: newFake(), Ready: func() error { return <-ready }}, nil)
	for _, test := range []struct {
		path   string
		err    error
		status int
		want   string
	}{
		{"/healthz", nil, 200, `{"status":"ok"}`},
		{"/readyz", nil, 200, `{"status":"ready"}`},
		{"/readyz", errNotReady, 503, `{"status":"not ready","kind":"not_ready"}`},
		{"/readyz", protocol.Errorf(protocol.ShuttingDown, "bye"), 503,
			`{"status":"not ready","kind":"shutting_down"}`},
		{"/metrics", nil, 404, ``},
	} {
		ready <- test.err
		r := send(t, http.MethodGet, "http://"+addr+test.path, nil, "")
		body, _ := io.ReadAll(r.Body)
		if r.StatusCode != test.status || !strings.Contains(string(body), test.want) ||
			strings.Contains(string(body), "weather") {
			t.Errorf("%s: %s %s", test.path, r.Status, body)
		}
		select {
		case <-ready: // must not be called
		default:
		}
	}
	addr = serve(t, Options{
		Backend:       newFake(),
		Ready:         func() error { return errNotReady },
		Verdict:       func() status.Verdict { return status.Verdict{Word: status.Degraded, Text: "DEGRADED: weather"} },
		Admin:         http.NotFoundHandler(),
		OperatorToken: "operators-own",
	}, nil)
	for token, want := range map[string]string{
		"":              `{"status":"not ready","kind":"not_ready"}`,
		"operators-own": `{"status":"not ready","kind":"not_ready","verdict":{"word":"DEGRADED","text":"DEGRADED: weather"}}`,
	} {
		h := http.Header{}
		if token != "" {
			h.Set("Authorization", "Bearer "+token)
		}
		r := send(t, http.MethodGet, "http://"+addr+"/readyz", h, "")
		body, _ := io.ReadAll(r.Body)
		if r.StatusCode != http.StatusServiceUnavailable || strings.TrimSpace(string(body)) != want {
			t.Errorf("with the token %q: %s %s", token, r.Status, body)
		}
	}
	addr = serve(t, Options{Backend: newFake()}, nil)
	if r := send(t, http.MethodGet, "http://"+addr+"/readyz", nil, ""); r.StatusCode != http.StatusOK {
		t.Errorf("without Ready: %s", r.Status)
	}
}

// TestReadinessWithoutAToken checks that /readyz answers a request without a token with the status code alone.
func TestReadinessWithoutAToken(t *testing.T) {
	ready := make(chan error, 1)
	url := "http://" + serve(t, Options{Backend: newFake(), Token: "secret", Ready: func() error { return <-ready }}, nil)
	for _, test := range []struct {
		token string
		err   error
		want  string
	}{
		{"", nil, "200 "},
		{"", errNotReady, "503 "},
		{"Bearer secret", nil, `200 {"status":"ready"}`},
		{"Bearer secret", errNotReady, `503 {"status":"not ready","kind":"not_ready"}`},
		{"Bearer wrong", nil, "401 a valid token is required: Authorization: Bearer …"},
	} {
		ready <- test.err
		r := send(t, http.MethodGet, url+"/readyz", authorization(test.token), "")
		body, _ := io.ReadAll(r.Body)
		if got := fmt.Sprintf("%d %s", r.StatusCode, strings.TrimSpace(string(body))); got != test.want {
			t.Errorf("%q, %v: %s, want %s", test.token, test.err, got, test.want)
		}
		if r.StatusCode == http.StatusUnauthorized {
			<-ready // it was not asked
		}
	}
}

// withToken adds a token to every request.
type withToken struct{ http.RoundTripper }

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer secret")
	return w.RoundTripper.RoundTrip(r)
}

func TestClientsOffLoopback(t *testing.T) {
	addr := serve(t, Options{Backend: newFake(), Token: "secret"},
		func(l net.Listener) net.Listener { return abroad{l} })
	h := &http.Client{Transport: withToken{client.Transport}}
	for name, transport := range map[string]mcp.Transport{
		"2025-11-25": &mcp.StreamableClientTransport{Endpoint: "http://" + addr + "/mcp", HTTPClient: h},
		"2026-07-28": &mcp.StreamableClientTransport{Endpoint: "http://" + addr + "/mcp", HTTPClient: h},
		"2024-11-05": &mcp.SSEClientTransport{Endpoint: "http://" + addr + "/sse", HTTPClient: h},
	} {
		c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
		session, err := c.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: name})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "any"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := session.InitializeResult().ProtocolVersion; got != name {
			t.Errorf("%s became %s", name, got)
		}
		session.Close()
	}
}

// At shutdown streams end at once; calls may finish until they are cancelled.
func TestShutdown(t *testing.T) {
	for _, finishes := range []bool{true, false} {
		b := newFake()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		url := "http://" + l.Addr().String() + "/mcp"
		o := Options{Backend: b}
		if !finishes {
			o.ShutdownTimeout = time.Millisecond
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- New(o).Serve(ctx, l) }()
		h := http.Header{
			"Mcp-Session-Id": {send(t, http.MethodPost, url, nil, initialize).Header.Get("Mcp-Session-Id")},
		}
		stream := send(t, http.MethodGet, url, h, "")
		answer := b.hang(t, url, h)
		cancel()
		if _, err := io.ReadAll(stream.Body); err != nil {
			t.Errorf("the stream ended with %v", err)
		}
		want := `"code":-32015`
		if finishes {
			close(b.finish)
			want = `"result":{"content":[]}`
		}
		if got := get(t, answer, "the answer"); !strings.Contains(got, want) {
			t.Errorf("finishes %v: %s", finishes, got)
		}
		client.CloseIdleConnections()
		if err := get(t, ended, "Serve"); err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
}

// bridge is a Bridge with one destination. It records where the destination listens.
type bridge struct{ listens chan string }

func (bridge) Destinations(ctx context.Context) iter.Seq[map[string]config.Destination] {
	return func(yield func(map[string]config.Destination) bool) {
		if yield(map[string]config.Destination{"d": {Type: config.DestinationStdio}}) {
			<-ctx.Done()
		}
	}
}

func (b bridge) Listens(_, address string) {
	if address != "" {
		b.listens <- address
	}
}

func (bridge) EnvHeaders(string) map[string]string { return nil }
func (bridge) Refuses(*protocol.Session) error     { return nil }

// At shutdown, requests on a destination's port may finish too.
func TestShutdownOfPorts(t *testing.T) {
	b, ports := newFake(), bridge{make(chan string, 1)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- New(Options{Backend: b, Bridge: ports, OperatorToken: "o"}).Serve(ctx, l) }()
	url, h := get(t, ports.listens, "the port")+"/mcp", http.Header{"Authorization": {"Bearer o"}}
	h["Mcp-Session-Id"] = send(t, http.MethodPost, url, h, initialize).Header["Mcp-Session-Id"]
	stream := send(t, http.MethodGet, url, h, "")
	answer := b.hang(t, url, h)
	cancel()
	_, _ = io.ReadAll(stream.Body)
	close(b.finish)
	if got := get(t, answer, "the answer"); !strings.Contains(got, `"result":{"content":[]}`) {
		t.Error(got)
	}
	client.CloseIdleConnections()
	if err := get(t, ended, "Serve"); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// An open event stream does not delay shutdown.
func TestShutdownEndsTheOperatorsStreams(t *testing.T) {
	h := openKit(t, exthost.Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	o := Options{Backend: h, Admin: Admin(h, nil), OperatorToken: "o", ShutdownTimeout: 10 * patience}
	go func() { ended <- New(o).Serve(ctx, l) }()
	stream := send(t, http.MethodGet, "http://"+l.Addr().String()+apiRoot+"/events",
		http.Header{"Authorization": {"Bearer o"}}, "")
	cancel()
	if _, err := io.ReadAll(stream.Body); err != nil {
		t.Errorf("the stream ended with %v", err)
	}
	if err := get(t, ended, "Serve"); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestServeReportsAListenerThatFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := New(Options{Backend: newFake()}).Serve(t.Context(), l); err == nil {
		t.Error("Serve found nothing wrong with a closed listener")
	}
}

// pipes is a loopback listener with in-memory connections, for tests with fake time.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error {
	select {
	case <-p:
	default:
		close(p)
	}
	return nil
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func TestSlowClientsAreCutOff(t *testing.T) {
	for name, test := range map[string]struct {
		sent   string
		within time.Duration
		want   string // the status line; "" if the connection is closed without one
	}{
		"header": {"GET /healthz HTTP/1.1\r\nHost: loc", 11 * time.Second, ""},
		"body": {"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
			"1000000\r\n\r\n{",
			61 * time.Second, "HTTP/1.1 408 Request Timeout"},
		"body that nobody reads": {"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n",
			61 * time.Second, "HTTP/1.1 404 Not Found"},
		"body of a refused": {"POST /mcp HTTP/1.1\r\nHost: evil.com\r\nContent-Length: 10\r\n\r\n{",
			61 * time.Second, "HTTP/1.1 403 Forbidden"},
		"chunks of a refused": {"POST /mcp HTTP/1.1\r\nHost: evil.com\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n1\r\n{\r\n", 61 * time.Second, "HTTP/1.1 403 Forbidden"},
		"stranger": {"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 11 * time.Second,
			"HTTP/1.1 200 OK"},
		"body of a stream": {"GET /sse HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{",
			61 * time.Second, ""},
		"idle": {"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n", 3 * time.Minute,
			"HTTP/1.1 200 OK"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := make(pipes)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- New(Options{Backend: newFake()}).Serve(ctx, l) }()
				here, there := net.Pipe()
				l <- there
				began := time.Now()
				go func() { _, _ = io.WriteString(here, test.sent) }()
				all, _ := io.ReadAll(here) // until the server closes the connection
				if line, _, _ := strings.Cut(string(all), "\r\n"); line != test.want {
					t.Errorf("the server said %q, want %q", line, test.want)
				}
				if took := time.Since(began); took > test.within {
					t.Errorf("the server had patience for %v", took)
				}
				here.Close()
				cancel()
				if err := <-ended; err != nil {
					t.Errorf("Serve: %v", err)
				}
			})
		})
	}
}

func TestTLS(t *testing.T) {
	cert, key, pool := writeCertificate(t)
	addr := serve(t, Options{Backend: newFake(), TLS: TLS{Cert: cert, Key: key}}, nil)
	c := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer c.CloseIdleConnections()
	r, err := c.Get("https://" + addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK || r.ProtoMajor != 2 {
		t.Errorf("%s %s", r.Proto, r.Status)
	}
}

// writeCertificate writes a certificate for 127.0.0.1 and its key to files.
func writeCertificate(t *testing.T, lasts ...time.Duration) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Now().Add(append(lasts, 90*24*time.Hour)[0]),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, _ := x509.ParseCertificate(der)
	keyDER, _ := x509.MarshalPKCS8PrivateKey(key)
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", keyDER), pool
}
