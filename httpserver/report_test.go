package httpserver

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// lockedBuffer is a buffer for concurrent use by a server and a test.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements [io.Writer].
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what has been written.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestRejectedTokens checks that requests with a rejected token are counted, alike ones are logged once, the client
// of an ended token is named, and requests without a token are not reported.
func TestRejectedTokens(t *testing.T) {
	processtest.Leaks(t)
	k := newKnown(t, "ada")
	old := clienttoken.New()
	k.stated["bob"] = config.Client{
		TokenHash:    clienttoken.Hash(clienttoken.New()),
		OldTokenHash: clienttoken.Hash(old),
		OldUntil:     "2020-01-01T00:00:00Z",
	}
	k.Set(k.stated)
	var log lockedBuffer
	s := New(Options{Backend: newFake(), Clients: k, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	url := "http://" + serveAs(t, s, nil)
	for _, token := range []string{"", "wrong", "wrong", "wrong", old, "exthost_removed"} {
		header := http.Header{}
		if token != "" {
			header = authorization("Bearer " + token)
		}
		if r := send(t, http.MethodPost, url+"/mcp", header, initialize); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: %s", token, r.Status)
		}
	}
	if r := send(t, http.MethodPost, url+"/mcp", k.header("ada"), initialize); r.StatusCode != http.StatusOK {
		t.Errorf("ada: %s", r.Status)
	}
	report := s.Report()
	if n := report.RejectedTokens.Count; n != 5 {
		t.Errorf("%d rejected", n)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	var told []string
	for _, line := range lines {
		if strings.Contains(line, `"a token was rejected"`) {
			told = append(told, line)
		}
	}
	if len(told) != 3 || !strings.Contains(told[1], `"client":"bob"`) ||
		!strings.Contains(told[0], `"from":"127.0.0.1"`) || strings.Contains(log.String(), "wrong\"") ||
		strings.Contains(log.String(), old) {
		t.Errorf("the log:\n%s", strings.Join(told, "\n"))
	}
	diags := report.Diagnostics(time.Now())
	if len(diags) != 1 || diags[0].Code != status.CodeTokenRejected ||
		!strings.Contains(diags[0].Message, "5 so far") || diags[0].Level != protocol.LevelWarn {
		t.Errorf("%+v", diags)
	}
	if later := report.Diagnostics(time.Now().Add(time.Hour)); len(later) > 0 {
		t.Errorf("an hour later: %+v", later)
	}
}

// TestCertificateThatEnds checks that an expired certificate is refused, that a certificate about to expire causes a
// warning, and that failed handshakes are counted, except for connections that send nothing.
func TestCertificateThatEnds(t *testing.T) {
	processtest.Leaks(t)
	cert, key, _ := writeCertificate(t, -time.Hour)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := New(Options{Backend: newFake(), TLS: TLS{Cert: cert, Key: key}}).Serve(t.Context(),
		l); protocol.KindOf(err) != protocol.ConfigInvalid || !strings.Contains(err.Error(), "ended on") {
		t.Errorf("an ended one: %v", err)
	}
	if d := CheckTLS(TLS{Cert: cert, Key: key}); d == nil || d.Level != protocol.LevelError {
		t.Errorf("an ended one: %+v", d)
	}
	cert, key, pool := writeCertificate(t, 20*24*time.Hour)
	var log lockedBuffer
	s := New(Options{
		Backend: newFake(),
		TLS:     TLS{Cert: cert, Key: key},
		Logger:  slog.New(slog.NewJSONHandler(&log, nil)),
	})
	addr := serveAs(t, s, nil)
	open, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	open.Close()
	silent, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	silent.Close()
	if c, err := tls.Dial("tcp", addr, &tls.Config{}); err == nil {
		c.Close()
		t.Fatal("a client without the pool connects")
	}
	eventually(t, func() bool { return s.Report().FailedHandshakes.Count > 0 })
	report := s.Report()
	if last := report.FailedHandshakes.Last; report.FailedHandshakes.Count != 1 || last.From != "127.0.0.1" ||
		!strings.Contains(last.Reason, "certificate") {
		t.Errorf("%+v", report.FailedHandshakes)
	}
	eventually(t, func() bool { return strings.Contains(log.String(), "the certificate ends on") })
	if report.CertificateEnds == nil || time.Until(*report.CertificateEnds) > 20*24*time.Hour {
		t.Errorf("%v", report.CertificateEnds)
	}
	for after, want := range map[time.Duration]bool{0: false, 21 * 24 * time.Hour: true} {
		at := status.Certificate(*report.CertificateEnds, time.Now().Add(after))
		if at == nil || (at.Level == protocol.LevelError) != want {
			t.Errorf("after %v: %+v", after, at)
		}
	}
	ended := time.Now().Add(-time.Minute)
	blocked := status.Status{Server: &status.Server{CertificateEnds: &ended}}
	if o := blocked.Obstacles(); len(o) != 1 || !o[0].Blocked {
		t.Errorf("a host with an ended certificate is ready: %+v", o)
	}
}
