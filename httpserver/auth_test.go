package httpserver

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/config"
)

// issuer is an authorization server.
type issuer struct {
	url string
	key ed25519.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := new(issuer)
	s := httptest.NewServer(i)
	t.Cleanup(s.Close)
	i.url = s.URL
	i.makeKey(t)
	return i
}

func (i *issuer) makeKey(t *testing.T) {
	t.Helper()
	var err error
	if _, i.key, err = ed25519.GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
}

// ServeHTTP publishes the issuer's metadata and its key.
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":"%s/keys"}`, i.url, i.url)
	case "/keys":
		public := base64.RawURLEncoding.EncodeToString(i.key.Public().(ed25519.PublicKey))
		fmt.Fprintf(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":%q}]}`, public)
	default:
		http.NotFound(w, r)
	}
}

// RoundTrip answers like ServeHTTP, without a network.
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	return w.Result(), nil
}

// header returns an Authorization header with an access token.
func (i *issuer) header(subject, audience, scope string, expires time.Duration) http.Header {
	claims, _ := json.Marshal(map[string]any{
		"iss":   i.url,
		"sub":   subject,
		"aud":   audience,
		"scope": scope,
		"exp":   time.Now().Add(expires).Unix(),
	})
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"EdDSA","kid":"k"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(claims)
	return authorization("Bearer " + signed + "." +
		base64.RawURLEncoding.EncodeToString(ed25519.Sign(i.key, []byte(signed))))
}

const resource = "https://host.example/mcp"

func TestOAuth(t *testing.T) {
	i := newIssuer(t)
	b := newFake()
	addr := serve(t, Options{
		Backend: b,
		Token:   "static",
		OAuth:   &OAuth{Resource: resource, Issuer: i.url, Scopes: []string{"tools"}},
	},
		func(l net.Listener) net.Listener { return abroad{l} })
	url := "http://" + addr + "/mcp"

	r := send(t, http.MethodPost, url, nil, initialize)
	const challenge = `Bearer resource_metadata="https://host.example/.well-known/oauth-protected-resource/mcp", scope="tools"`
	if r.StatusCode != http.StatusUnauthorized || r.Header.Get("WWW-Authenticate") != challenge {
		t.Errorf("without a token: %s %q", r.Status, r.Header.Get("WWW-Authenticate"))
	}
	for _, path := range []string{metadataPath, metadataPath + "/mcp"} {
		r = send(t, http.MethodGet, "http://"+addr+path, nil, "")
		var m struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
			Scopes   []string `json:"scopes_supported"`
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || m.Resource != resource || len(m.Servers) != 1 ||
			m.Servers[0] != i.url || len(m.Scopes) != 1 {
			t.Errorf("%s: %s %+v %v", path, r.Status, m, err)
		}
	}
	for name, tt := range map[string]struct {
		header http.Header
		status int
	}{
		"good":              {i.header("ada", resource, "tools other", time.Hour), 200},
		"for somebody else": {i.header("ada", "https://other.example", "tools", time.Hour), 401},
		"expired":           {i.header("ada", resource, "tools", -time.Hour), 401},
		"without the scope": {i.header("ada", resource, "other", time.Hour), 403},
		"without a subject": {i.header("", resource, "tools", time.Hour), 401},
		"the operator":      {i.header("operator", resource, "tools", time.Hour), 401},
		"the static one":    {authorization("Bearer static"), 200},
		"half of that":      {authorization("Bearer stat"), 401},
		"in the URL":        {nil, 401},
	} {
		r := send(t, http.MethodPost,
			url+"?access_token="+strings.TrimPrefix(tt.header.Get("Authorization"), "Bearer "), tt.header, initialize)
		if r.StatusCode != tt.status {
			body, _ := io.ReadAll(r.Body)
			t.Errorf("%s: %s %s", name, r.Status, body)
		}
	}

	// The caller is the token's subject, and sessions belong to it.
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"agent_id":"eve"}}}`
	ada := i.header("ada", resource, "tools", time.Hour)
	ada.Set("Mcp-Session-Id", send(t, http.MethodPost, url, ada, initialize).Header.Get("Mcp-Session-Id"))
	if r := send(t, http.MethodPost, url, ada, list); r.StatusCode != http.StatusOK {
		t.Errorf("her own session: %s", r.Status)
	}
	if caller := get(t, b.callers, "the call"); caller != "ada" {
		t.Errorf("caller %q", caller)
	}
	for name, h := range map[string]http.Header{
		"another subject":  i.header("bob", resource, "tools", time.Hour),
		"the static token": authorization("Bearer static"),
	} {
		h.Set("Mcp-Session-Id", ada.Get("Mcp-Session-Id"))
		if r := send(t, http.MethodPost, url, h, list); r.StatusCode != http.StatusNotFound {
			t.Errorf("her session, shown by %s: %s", name, r.Status)
		}
	}
}

func TestOAuthIssuerIsAway(t *testing.T) {
	i := newIssuer(t)
	addr := serve(t, Options{
		Backend: newFake(),
		OAuth:   &OAuth{Resource: resource, Issuer: i.url, KeysURL: "http://127.0.0.1:1/keys"},
	}, nil)
	r := send(t, http.MethodPost, "http://"+addr+"/mcp", i.header("ada", resource, "", time.Hour), initialize)
	if body, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusInternalServerError ||
		strings.Contains(string(body), "127.0.0.1:1") {
		t.Errorf("%s %s", r.Status, body)
	}
}

// Anything that anybody can repeat at will must not log a line each time.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	var log bytes.Buffer
	i := newIssuer(t)
	s := New(Options{
		Backend: &fake{},
		Logger:  slog.New(slog.NewTextHandler(&log, nil)),
		OAuth:   &OAuth{Resource: resource, Issuer: i.url, KeysURL: "http://127.0.0.1:1/keys"},
	})
	token := strings.TrimPrefix(i.header("ada", resource, "", time.Hour).Get("Authorization"), "Bearer ")
	d := s.newAuthenticator(nil)
	for n := range 1000 {
		if _, err := s.verify(t.Context(), token, nil); err == nil {
			t.Fatal("verified without keys")
		}
		d.turnAway(httptest.NewRecorder(), fmt.Errorf("it is of the user with uid %d", n%2))
	}
	if got := strings.Count(log.String(), "cannot be verified"); got != 1 {
		t.Errorf("%d lines about the keys", got)
	}
	if got := strings.Count(log.String(), "was kept from the server"); got != 2 {
		t.Errorf("%d lines about two users", got)
	}
	for n := range 1000 {
		d.turnAway(httptest.NewRecorder(), fmt.Errorf("it is of the user with uid %d", n))
	}
	if got := strings.Count(log.String(), "was kept from the server"); got != maxLoggedReasons {
		t.Errorf("%d lines about 1000 users", got)
	}
}

// The rules for hosts, origins and tokens hold on the ports of destinations too.
func TestForeignRequestsReachNoDestination(t *testing.T) {
	_, h := bridged(t, config.Destinations{"d": {Type: config.DestinationStdio}},
		Options{OperatorToken: "own", AllowedOrigins: []string{"https://app.example"}})
	var at string
	eventually(t, func() bool { at = h.Status().Destinations[0].Listens; return at != "" })
	for _, fields := range foreign {
		fields = fields.Clone()
		fields.Set("Authorization", "Bearer own")
		for _, route := range []string{"/mcp", "/sse", "/message", "/"} {
			for _, method := range methods {
				if r := send(t, method, at+route, fields, initialize); r.StatusCode != http.StatusForbidden {
					t.Errorf("%s %s %v: %s", method, route, fields, r.Status)
				}
			}
		}
	}
	if n := len(h.Status().Destinations[0].Instances); n != 0 {
		t.Errorf("%d instances were started", n)
	}
}

// Unfinished bodies together use only a bounded amount of memory, and other requests are served meanwhile.
func TestUnfinishedBodiesAreBounded(t *testing.T) {
	o := Options{Backend: newFake(), MaxBodies: 16 << 20}
	o.MCP.MaxBody = 16 << 20
	addr := serve(t, o, nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const bodies, size = 40, 4 << 20
	answers := make(chan string, bodies)
	for range bodies {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() {
			head := fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
				"application/json\r\nContent-Length: %d\r\n\r\n", size+1)
			_, _ = io.WriteString(c, head+strings.Repeat(" ", size))
			line := make([]byte, len("HTTP/1.1 503"))
			if _, err := io.ReadFull(c, line); err == nil {
				answers <- string(line)
			}
		}()
	}
	for range bodies - 5 { // at least; the others fit
		if line := get(t, answers, "a body to be refused"); line != "HTTP/1.1 503" {
			t.Errorf("a body was answered %s", line)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 48<<20 {
		t.Errorf("%d MiB are held", grown>>20)
	}
	if r := send(t, http.MethodPost, "http://"+addr+"/mcp", nil, initialize); r.StatusCode != http.StatusOK {
		t.Errorf("a small request beside them: %s", r.Status)
	}
}

func TestReloadTLS(t *testing.T) {
	cert, key, pool := writeCertificate(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Backend: newFake(), TLS: TLS{Cert: cert, Key: key}})
	ended := make(chan error, 1)
	ctx := t.Context()
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		if err := get(t, ended, "Serve"); err != nil {
			t.Error(err)
		}
	})
	serial := func() string {
		t.Helper()
		c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return string(c.ConnectionState().PeerCertificates[0].Raw)
	}
	first := serial()
	otherCert, otherKey, otherPool := writeCertificate(t)
	replace := func(from, to string) {
		t.Helper()
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	replace(otherCert, cert)
	if err := s.ReloadTLS(); err == nil || serial() != first {
		t.Errorf("a certificate without its key: %v", err)
	}
	replace(otherKey, key)
	if err := s.ReloadTLS(); err != nil {
		t.Fatal(err)
	}
	if pool = otherPool; serial() == first {
		t.Error("the certificate is still the one before")
	}
}
