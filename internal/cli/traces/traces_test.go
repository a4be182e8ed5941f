//go:build !slim

package traces

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

var _ exthost.Tracer = (*Tracer)(nil)

// open returns a tracer that sends to url, and its log.
func open(t *testing.T, url string, o Options) (*Tracer, *strings.Builder) {
	t.Helper()
	log := new(strings.Builder)
	o.Log, o.Version = slog.New(slog.NewTextHandler(log, nil)), "1"
	o.Settings.Endpoint = url
	tracer, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return tracer, log
}

// call records the spans of a call.
func call(t *Tracer, parent protocol.TraceContext) protocol.TraceContext {
	began := time.Now()
	_, span := t.Begin(context.Background(), parent, began)
	told := span.Send(began)
	span.Ask(began, protocol.MethodElicit)(began, status.Outcome(protocol.Canceled))
	span.End(began.Add(3), &status.CallEvent{
		Method:  protocol.MethodToolsCall,
		Tool:    "ext_x_t",
		Outcome: status.OutcomeOK,
		Took:    3,
		Stages:  []status.Stage{{Name: status.StageQueue, Took: 1}, {Name: status.StageInstance, At: 1, Took: 2}},
	})
	return told
}

// A collector that hangs does not delay calls, and delays the end only briefly. Spans beyond the queue's limit are
// dropped, every span is counted, and pending spans at the end open no new connection.
func TestCollectorThatHangs(t *testing.T) {
	processtest.Leaks(t)
	asked, free := make(chan struct{}, 1), make(chan struct{})
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-free
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer func() {
		close(free)
		server.Close()
		if n := connections.Load(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	}()
	tracer, log := open(t, server.URL,
		Options{Environ: map[string]string{"OTEL_BSP_MAX_QUEUE_SIZE": "8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4"}})
	call(tracer, protocol.TraceContext{})
	<-asked
	for range 100 {
		call(tracer, protocol.TraceContext{})
	}
	if r := tracer.Report(); r.Dropped != 404-8 || r.Sent != 0 {
		t.Errorf("%+v", r)
	}
	tracer.Close()
	if r := tracer.Report(); r.Dropped+r.Failed != 404 ||
		!strings.Contains(log.String(), "404 spans of this host were not sent") {
		t.Errorf("%+v\n%s", r, log)
	}
}

// The caller's sampling decision wins over the configured ratio. The instance gets a trace context in any case.
func TestCallersSamplingDecisionWins(t *testing.T) {
	processtest.Leaks(t)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	const id = "0af7651916cd43dd8448eb211c80319c"
	parent := func(flags string) protocol.TraceContext {
		return protocol.TraceContext{Parent: "00-" + id + "-b7ad6b7169203331-" + flags, State: "vendor=1"}
	}
	for _, tt := range []struct {
		ratio  config.Ratio
		parent protocol.TraceContext
		flags  string
	}{
		{"", protocol.TraceContext{}, "01"}, {"0", protocol.TraceContext{}, "00"}, {"0", parent("01"), "01"},
		{"1", parent("00"), "00"},
		{"0", protocol.TraceContext{Parent: "00-hello", State: "a=1"}, "00"},
	} {
		tracer, _ := open(t, server.URL, Options{Settings: config.Tracing{Sampling: tt.ratio}})
		told := call(tracer, tt.parent)
		if !strings.HasSuffix(told.Parent, "-"+tt.flags) || (told.ID() == id) != (tt.parent.State == "vendor=1") ||
			(told.State == "vendor=1") != (tt.parent.State == "vendor=1") {
			t.Errorf("%q below %+v: the instance is told %+v", tt.ratio, tt.parent, told)
		}
		tracer.Close()
		if r := tracer.Report(); (r.Failed == 4) != (tt.flags == "01") || r.Sent != 0 {
			t.Errorf("%q below %+v: %+v", tt.ratio, tt.parent, r)
		}
	}
}

// A collector that quotes the request in its response does not bring secrets into the log or the status.
func TestAnswerWithSecrets(t *testing.T) {
	processtest.Leaks(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no:\x1b[2J "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Key")+strings.Repeat("x", 10000),
			http.StatusForbidden)
	}))
	defer server.Close()
	tracer, log := open(t, server.URL,
		Options{
			Settings: config.Tracing{
				Headers: map[string]string{"Authorization": "Bearer canary-token", "X-Key": "canary-key"},
			},
		})
	call(tracer, protocol.TraceContext{})
	tracer.Close()
	problem := tracer.Report().Problem
	if !strings.Contains(problem, "403") || len(problem) > maxProblem ||
		strings.Contains(problem+log.String(), "canary") || strings.Contains(problem, "\x1b") {
		t.Errorf("%q\n%s", problem, log)
	}
}

// A redirect is not followed: headers with secrets go only to the configured collector, and spans lost on the way do
// not count as sent.
func TestRedirectIsNotFollowed(t *testing.T) {
	processtest.Leaks(t)
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		server := httptest.NewServer(http.RedirectHandler(other.URL+"/x", status))
		tracer, log := open(t, server.URL,
			Options{Settings: config.Tracing{Headers: map[string]string{"X-Key": "canary-key"}}})
		call(tracer, protocol.TraceContext{})
		tracer.Close()
		server.Close()
		if r := tracer.Report(); r.Failed != 4 || elsewhere.Load() != 0 ||
			!strings.Contains(r.Problem, "not followed: state the address that it leads to") {
			t.Errorf("%d: %+v, %d requests elsewhere\n%s", status, r, elsewhere.Load(), log)
		}
	}
}

// Variables that ask for something unsupported are an error; variables that switch tracing off are respected.
func TestUnsupportedVariablesAreErrors(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, tt := range []struct {
		environ   []string
		stated    string
		want, err string
	}{
		{nil, "", "", ""},
		{[]string{endpoint + "=http://c:4318"}, "", "http://c:4318/v1/traces", ""},
		{[]string{endpoint + "=http://c:4318/base/", "OTEL_TRACES_EXPORTER=otlp"}, "", "http://c:4318/base/v1/traces",
			""},
		{[]string{endpoint + "=http://c", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t/x"}, "", "http://t/x", ""},
		{[]string{endpoint + "=http://c"}, "http://own", "http://own/v1/traces", ""},
		{[]string{endpoint + "=http://c", "OTEL_SDK_DISABLED=true"}, "http://own", "", ""},
		{[]string{endpoint + "=http://c", "OTEL_TRACES_EXPORTER=none"}, "", "", ""},
		{[]string{endpoint + "=http://c", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, "", "", `is "grpc", and only`},
		{[]string{endpoint + "=c:4317"}, "", "", endpoint + " cannot be used: it is not an http"},
		{[]string{endpoint + "=http://me:canary@c"}, "", "", "state them in headers"},
	} {
		got, err := (&Options{Environ: Environ(tt.environ), Settings: config.Tracing{Endpoint: tt.stated}}).endpoint()
		if got != tt.want || (err == nil) != (tt.err == "") ||
			err != nil && (!strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "canary")) {
			t.Errorf("%v: %q, %v", tt.environ, got, err)
		}
	}
}

// Invalid numbers are ignored: the SDK panics at some of them and busy-loops with others.
func TestInvalidNumbersAreIgnored(t *testing.T) {
	processtest.Leaks(t)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	for _, name := range []string{
		"OTEL_BSP_MAX_QUEUE_SIZE",
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
		"OTEL_BSP_SCHEDULE_DELAY",
	} {
		for _, value := range []string{"-1", "0", "9223372036854775807", "many"} {
			t.Setenv(name, value)
			tracer, _ := open(t, server.URL, Options{Environ: map[string]string{name: value}})
			call(tracer, protocol.TraceContext{})
			tracer.Close()
			if r := tracer.Report(); r.Sent != 4 {
				t.Errorf("%s=%s: %+v", name, value, r)
			}
		}
		t.Setenv(name, "")
	}
}

// BenchmarkCall measures what the spans of a call cost the caller.
func BenchmarkCall(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	for name, ratio := range map[string]config.Ratio{"sent": "1", "not sampled": "0"} {
		b.Run(name, func(b *testing.B) {
			tracer, err := Open(b.Context(),
				Options{
					Settings: config.Tracing{Endpoint: server.URL, Sampling: ratio},
					Log:      slog.New(slog.DiscardHandler),
				})
			if err != nil {
				b.Fatal(err)
			}
			defer tracer.Close()
			b.ReportAllocs()
			for b.Loop() {
				call(tracer, protocol.TraceContext{})
			}
		})
	}
}

// certified returns a server with a self-signed certificate for name, valid until the given time, and the certificate's
// file.
func certified(t *testing.T, name string, until time.Time) (*httptest.Server, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             until.Add(-time.Hour),
		NotAfter:              until,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(name); ip != nil {
		about.IPAddresses = []net.IP{ip}
	} else {
		about.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, file
}

// Collectors refuse connections and requests in every usual way. The log says once which collector, why, and what to
// do; the report says the same, and calls go on.
func TestCollectorThatRefuses(t *testing.T) {
	processtest.Leaks(t)
	valid := time.Now().Add(time.Hour)
	unknown, _ := certified(t, "127.0.0.1", valid)
	expired, expiredCA := certified(t, "127.0.0.1", time.Now().Add(-time.Minute))
	renamed, renamedCA := certified(t, "collector.example", valid)
	good, goodCA := certified(t, "127.0.0.1", valid)
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(plain.Close)
	answers := func(status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	for _, tt := range []struct{ name, url, ca, reason, next string }{
		{"another authority", unknown.URL, "", "unknown authority", "OTEL_EXPORTER_OTLP_CERTIFICATE"},
		{"expired", expired.URL, expiredCA, "expired", "renew the certificate"},
		{"another name", renamed.URL, renamedCA, "127.0.0.1", "a name in otel.endpoint that the certificate"},
		{"plain http", strings.Replace(plain.URL, "http:", "https:", 1), "", "HTTP response to HTTPS client",
			"state http://"},
		{"TLS", strings.Replace(good.URL, "https:", "http:", 1), "", "", "state https://"},
		{"401", answers(401), "", "401 Unauthorized", "otel.headers"}, {"403", answers(403), "", "403", "otel.headers"},
		{"404", answers(404), "", "404", "correct otel.endpoint"},
		{"a good one", good.URL, goodCA, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", tt.ca)
			tracer, log := open(t, tt.url, Options{})
			for range 3 {
				call(tracer, protocol.TraceContext{})
				if err := tracer.provider.ForceFlush(t.Context()); err != nil {
					t.Error(err)
				}
			}
			tracer.Close()
			r, text := tracer.Report(), log.String()
			if tt.next == "" {
				if r.Problem != "" || r.Next != "" || r.Sent != 12 {
					t.Errorf("%+v\n%s", r, text)
				}
				return
			}
			if r.Failed != 12 || !strings.Contains(r.Problem, tt.reason) || !strings.Contains(r.Next, tt.next) {
				t.Errorf("%+v", r)
			}
			if n := strings.Count(text, "traces cannot be sent"); n != 1 || !strings.Contains(text, "to="+tt.url) ||
				!strings.Contains(text, tt.reason) || !strings.Contains(text, tt.next) {
				t.Errorf("said %d times:\n%s", n, text)
			}
		})
	}
}
