package cluster_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/internal/testing/benchtest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
)

// BenchmarkForwardedSession measures a call of an HTTP session at a node other than its home, and its parts:
// the call at home, and a round trip over the same server. It also measures how long a request to a leaving
// home waits before its client is told to initialize again.
func BenchmarkForwardedSession(b *testing.B) {
	s := startServers(b, 1)
	address := "127.0.0.1:" + processtest.FreePorts(b, 1)[0]
	home := spawn(b, "home one "+address+" "+strings.Join(s.urls(), " "))
	spawn(b, "answer "+s.urls()[0])
	n := join(b, s.urls(), "two", peers.AsMine)
	h := open(b, n, true)
	awaitTool(b, h, "ext_one_x_echo", true)
	front := frontOf(b, n, h)
	session := begin(b, "http://"+address)
	conn, err := nats.Connect(s.urls()[0])
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	body := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ext_x_echo","arguments":{"text":` +
		string(benchtest.Text(100)) + `}}}`
	call := func(url string) func() error {
		return func() error {
			r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
			if err != nil {
				return err
			}
			r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Session-Id": {session}}
			response, err := client.Do(r)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if got, err := io.ReadAll(response.Body); err != nil || len(got) < 100 {
				return errors.Join(err, errors.New("a result of the wrong size"))
			}
			return nil
		}
	}
	ways := []benchtest.Way{
		{Name: "request", Call: func() error {
			_, err := conn.Request("answer", []byte(body), time.Minute)
			return err
		}},
		{Name: "home", Call: call("http://" + address)},
		{Name: "forwarded", Call: call(front)},
	}
	b.Run(benchtest.Sequential.Name, func(b *testing.B) {
		for b.Loop() {
			r := benchtest.Sequential.Measure(b, turns, ways...)
			for _, one := range r {
				b.ReportMetric(float64(one.P50), one.Name+"-p50-ns")
			}
			b.ReportMetric(float64(r[2].P50)/float64(r[0].P50+r[1].P50), "forwarded/(request+home)-p50")
		}
		b.ReportMetric(0, "ns/op")
	})
	b.Run("gone", func(b *testing.B) {
		home.Stop(b)
		for b.Loop() {
			began := time.Now()
			r := request(within(b), b, http.MethodPost, front, session, body)
			if r.StatusCode != http.StatusNotFound {
				b.Fatalf("a session of a node that has ended: %s", r.Status)
			}
			b.ReportMetric(float64(time.Since(began))/1e6, "told-ms")
		}
		b.ReportMetric(0, "ns/op")
	})
}
