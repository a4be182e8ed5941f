package services_test

import (
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/cluster/services"
	"github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/internal/testing/natstest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// connect connects to service far-1 with at most 96 calls in flight.
func connect(t *testing.T, url string, files cluster.Certificates) (jsonrpc.Transport, error) {
	t.Helper()
	return services.New(cluster.Membership{URLs: []string{url}, TLS: files}).Connect(t.Context(), &runtime.Spec{
		ID:       "far-1",
		Logger:   slog.New(slog.DiscardHandler),
		Options:  manifest.Options{MaxLineBytes: 1 << 20, MaxInFlight: 96},
		Manifest: &manifest.Manifest{Transport: manifest.Transport{Kind: manifest.KindNATS, SubjectPrefix: "ext"}},
	})
}

// dialogue is a transport to a service that the test plays.
type dialogue struct {
	jsonrpc.Transport
	t       *testing.T
	service *nats.Conn
	came    *nats.Subscription // requests to the service
}

// talk plays a service at the server of p, and connects to it at url.
func talk(t *testing.T, p *place, url string) *dialogue {
	t.Helper()
	conn, err := nats.Connect(p.url())
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	conn.SetClosedHandler(func(*nats.Conn) { close(closed) })
	t.Cleanup(func() { conn.Close(); <-closed })
	d := &dialogue{t: t, service: conn}
	if d.came, err = conn.SubscribeSync("ext.far-1.rpc"); err == nil {
		err = conn.Flush()
	}
	if err == nil {
		d.Transport, err = connect(t, url, cluster.Certificates{})
	}
	if err != nil {
		t.Fatal(err)
	}
	end := time.AfterFunc(patience, func() { d.Close() })
	t.Cleanup(func() { end.Stop(); d.Close() })
	return d
}

// ask sends a request, and returns it as the service receives it.
func (d *dialogue) ask(id int) *nats.Msg {
	d.t.Helper()
	err := d.Write(d.t.Context(), jsonrpc.Message{ID: strconv.AppendInt(nil, int64(id), 10), Method: "x"})
	if err != nil {
		d.t.Fatal(err)
	}
	m, err := d.came.NextMsg(patience)
	if err != nil {
		d.t.Fatal(err)
	}
	return m
}

// answer answers a request with so many bytes of text.
func (d *dialogue) answer(m *nats.Msg, bytes int) {
	_ = m.Respond([]byte(`{"jsonrpc":"2.0","id":` + idOf(m) + `,"result":"` + strings.Repeat("x", bytes) + `"}`))
}

// until reads up to the answer to a request, and returns the number of answers.
func (d *dialogue) until(id int) (answers int) {
	d.t.Helper()
	for {
		m, err := d.Read()
		if err != nil {
			d.t.Fatal(err)
		}
		if m.Method == "" {
			answers++
			if string(m.ID) == strconv.Itoa(id) {
				return answers
			}
		}
	}
}

// No answer is lost if all arrive while nobody reads.
func TestManyAnswersAtOnceAreNotLost(t *testing.T) {
	p := newPlace(t, natstest.Server{})
	d := talk(t, p, p.url())
	var asked []*nats.Msg
	for id := range 96 {
		asked = append(asked, d.ask(id))
	}
	for _, m := range asked {
		d.answer(m, 1<<20-1024)
	}
	_ = d.service.Flush()
	got := d.until(0)
	d.answer(d.ask(96), 1)
	if got += d.until(96); got != 97 {
		t.Errorf("%d of 97 answers came", got)
	}
}

// A service that sends more than is read loses notifications, but no answer.
func TestChattyServiceLosesNoAnswer(t *testing.T) {
	p := newPlace(t, natstest.Server{})
	d := talk(t, p, p.url())
	m := d.ask(1)
	for range 20_000 {
		_ = m.Respond([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`))
	}
	d.answer(m, 1)
	_ = d.service.Flush()
	if _, err := d.Read(); err != nil {
		t.Fatal(err)
	}
	d.answer(d.ask(2), 1)
	if got := d.until(2); got != 2 {
		t.Errorf("%d of 2 answers came", got)
	}
}

// A server may close the connection at any moment of connecting. The error contains its reason, and nothing
// blocks.
func TestClosedAtOnce(t *testing.T) {
	processtest.Leaks(t)
	url := natstest.Impostor(t, "-ERR 'go away'\r\n")
	over := make(chan error)
	for range 3000 { // at a different moment each time
		go func() {
			c, err := connect(t, url, cluster.Certificates{})
			if err == nil {
				if err = c.Write(t.Context(), jsonrpc.Message{ID: []byte("1"), Method: "x"}); err == nil {
					_, err = c.Read()
				}
				c.Close()
			}
			over <- err
		}()
		select {
		case err := <-over:
			if fault, ok := errors.AsType[*protocol.Error](err); !ok ||
				!strings.Contains(fault.Message, "nats: go away") ||
				strings.Contains(fault.Message, "no NATS server answers") {
				t.Fatalf("%T: %v", err, err)
			}
		case <-time.After(patience):
			t.Fatal("it hangs")
		}
	}
}

// gone waits until the transport has ended because there is no service. A request must have been sent before.
func (d *dialogue) gone() {
	d.t.Helper()
	_ = d.came.Unsubscribe()
	_ = d.service.Flush()
	if err := d.Write(d.t.Context(), jsonrpc.Message{ID: []byte("9"), Method: "x"}); err != nil {
		d.t.Fatal(err)
	}
	unsent := 0
	m, err := d.Read()
	for ; err == nil; m, err = d.Read() {
		if m.Invalid != nil && protocol.KindOf(m.Invalid) == protocol.NotReady {
			unsent++
		}
	}
	if unsent != 1 || protocol.KindOf(err) != protocol.ChildExited {
		d.t.Errorf("%d requests were not sent; then: %v", unsent, err)
	}
}

// A transport whose service is gone is not kept alive by messages to the event subject.
func TestEventsDoNotKeepADeadServiceAlive(t *testing.T) {
	p := newPlace(t, natstest.Server{})
	d := talk(t, p, p.url())
	over := make(chan struct{})
	var events sync.WaitGroup
	events.Go(func() {
		each := time.NewTicker(20 * time.Millisecond)
		defer each.Stop()
		for {
			select {
			case <-over:
				return
			case <-each.C:
				_ = d.service.Publish("ext.far-1.event",
					[]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`))
			}
		}
	})
	d.gone()
	close(over)
	events.Wait()
}

// The server's reply that a request has no subscriber is noticed even if it comes late.
func TestSlowServerReportsAMissingService(t *testing.T) {
	p := newPlace(t, natstest.Server{})
	distant := natstest.Between(t, p.url(), func(client net.Conn, words []byte) {
		<-time.After(400 * time.Millisecond)
		_, _ = client.Write(words)
	})
	talk(t, p, distant).gone()
}

// A TLS error names what is missing.
func TestUntrustedCertificate(t *testing.T) {
	processtest.Leaks(t)
	known := httptest.NewTLSServer(nil) // its certificate is for 127.0.0.1
	defer known.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: known.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	address := func(o server.Options) string {
		o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
		return natstest.Run(t, &o).Addr().(*net.TCPAddr).String()
	}
	secure, plain := address(server.Options{
		TLSConfig:  known.TLS,
		TLSTimeout: patience.Seconds(),
	}), address(server.Options{})
	_, port, _ := net.SplitHostPort(secure)
	stated := cluster.Certificates{CA: ca}
	if c, err := connect(t, "nats://"+secure, stated); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	for url, tt := range map[string]struct {
		files cluster.Certificates
		want  string
	}{
		"tls://" + secure:         {cluster.Certificates{}, "unknown authority"},
		"nats://" + secure:        {cluster.Certificates{}, "unknown authority"},
		"tls://localhost:" + port: {stated, "not localhost"},
		"tls://" + plain:          {cluster.Certificates{}, "secure connection not available"},
		"nats://" + plain:         {stated, "secure connection not available"},
	} {
		c, err := connect(t, url, tt.files)
		if err == nil {
			c.Close()
		}
		if protocol.KindOf(err) != protocol.ConfigInvalid ||
			!strings.Contains(err.Error(), "no secure connection to NATS at "+url) ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
