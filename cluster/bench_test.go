package cluster_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/cluster"
	"github.com/exthost/exthost/cluster/hub"
	"github.com/exthost/exthost/cluster/internal/link"
	"github.com/exthost/exthost/cluster/internal/natsclient"
	"github.com/exthost/exthost/cluster/internal/pair"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/testing/benchtest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// BenchmarkFarCall measures a call at a remote node, which is a process of its own, and the two parts of such a call:
// the same call at the local host, and a round trip over the same server to a process that returns the body. "both"
// makes the parts in turn: as in a remote call, the processes of the host then sleep between them and have to be woken.
// It also measures the pair protocol without hosts, a body of 16 MiB, the death of a node, and the memory of a cluster.
func BenchmarkFarCall(b *testing.B) {
	s := startServers(b, 1)
	url := s.urls()[0]
	node{Name: "gpu1", As: peers.AsMine, URLs: s.urls(), Plugins: x}.start(b)
	spawn(b, "answer "+url)
	spawn(b, "chunks "+url)
	spawn(b, "pair "+url)
	web := open(b, join(b, s.urls(), "web", peers.AsMine), true)
	alone := open(b, nil, true)
	awaitTool(b, web, "ext_gpu1_x_echo", true)
	conn, err := nats.Connect(url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	args := json.RawMessage(fmt.Sprintf(`{"text":%s}`, benchtest.Text(100)))
	call := func(h *exthost.Host, tool string) func() error {
		return func() error {
			r, err := h.Call(context.Background(), tool, args)
			if err == nil && len(r) < len(args) {
				err = errors.New("a result of the wrong size")
			}
			return err
		}
	}
	front, owner := newPairs(b, url)
	request := func() error {
		_, err := conn.Request("answer", args, time.Minute)
		return err
	}
	ways := []benchtest.Way{
		{Name: "request", Call: request},
		{Name: "pair", Call: func() error {
			_, err := front.Call(context.Background(), owner, &wire.Head{}, args, nil)
			return err
		}},
		{Name: "alone", Call: call(alone, "ext_x_echo")},
		{Name: "local", Call: call(web, "ext_x_echo")},
		{Name: "both", Call: func() error { return cmp.Or(request(), call(web, "ext_x_echo")()) }},
		{Name: "far", Call: call(web, "ext_gpu1_x_echo")},
	}
	for _, l := range []benchtest.Load{benchtest.Sequential, benchtest.Callers16, benchtest.Callers64} {
		b.Run(l.Name, func(b *testing.B) {
			for b.Loop() {
				r := l.Measure(b, turns, ways...)
				request, pair, alone, local, both, far := r[0], r[1], r[2], r[3], r[4], r[5]
				for _, one := range r {
					b.ReportMetric(float64(one.P50), one.Name+"-p50-ns")
					b.ReportMetric(one.Rate, one.Name+"-calls/s")
				}
				b.ReportMetric(float64(far.P50)/float64(request.P50+local.P50), "far/(request+local)-p50")
				b.ReportMetric(float64(far.P50)/float64(both.P50), "far/both-p50")
				b.ReportMetric(far.Rate/request.Rate, "far/request-calls/s")
				b.ReportMetric(float64(pair.P50)/float64(request.P50), "pair/request-p50")
				b.ReportMetric(float64(local.P50)/float64(alone.P50), "local/alone-p50")
			}
			b.ReportMetric(0, "ns/op") // meaningless for several ways at once
		})
	}
	b.Run("16MiB-result", func(b *testing.B) {
		l := benchtest.Load{Callers: 1, Calls: 5}
		for b.Loop() {
			r := l.Measure(b, turns, benchtest.Way{Name: "chunks", Call: chunked(b, conn)},
				benchtest.Way{
					Name: "pair",
					Call: func() error {
						result, err := front.Call(context.Background(), owner,
							&wire.Head{Request: wire.Request{Method: "long"}}, nil, nil)
						if err == nil && len(result) != long {
							err = errors.New("a result of the wrong size")
						}
						return err
					},
				})
			for _, one := range r {
				b.ReportMetric(float64(one.P50)/1e6, one.Name+"-p50-ms")
			}
			b.ReportMetric(float64(r[0].P50)/float64(r[1].P50), "pair/chunks-bytes/s")
		}
		b.ReportMetric(0, "ns/op")
	})
	b.Run("death", func(b *testing.B) {
		for b.Loop() {
			n := node{Name: "gpu2", As: peers.AsMine, URLs: s.urls(), Plugins: x}.start(b)
			awaitTool(b, web, "ext_gpu2_x_note", true)
			outcome := waiting(b, web, "ext_gpu2_x_note", filepath.Join(b.TempDir(), "notes"))
			died := time.Now()
			n.Kill()
			if err := <-outcome; !isLost(err) {
				b.Fatal(err)
			}
			b.ReportMetric(time.Since(died).Seconds(), "in-flight-s")
		}
		b.ReportMetric(0, "ns/op")
	})
	b.Run("memory", func(b *testing.B) {
		for b.Loop() {
			host, joined, hubbed := memory(b, ""), memory(b, url), memory(b,
				"hub 127.0.0.1:"+processtest.FreePorts(b, 1)[0])
			b.ReportMetric((joined-host)/(1<<10), "node-MiB")
			b.ReportMetric((hubbed-joined)/(1<<10), "hub-MiB")
		}
		b.ReportMetric(0, "ns/op")
	})
}

const (
	turns = 9
	long  = 16 << 20 // bytes

	chunk  = 256 << 10
	window = 4 // outstanding chunks
)

// chunked returns a function that fetches long bytes from the process of chunks.
func chunked(tb testing.TB, conn *nats.Conn) func() error {
	inbox := nats.NewInbox()
	parts := make(chan *nats.Msg, 2*window)
	if _, err := conn.ChanSubscribe(inbox, parts); err != nil {
		tb.Fatal(err)
	}
	return func() error {
		if err := conn.PublishRequest("chunks", inbox, nil); err != nil {
			return err
		}
		body := make([]byte, 0, long)
		for len(body) < long {
			body = append(body, (<-parts).Data...)
			if err := conn.Publish("chunks.credit", nil); err != nil {
				return err
			}
		}
		return nil
	}
}

// chunks sends long bytes on request until stdin ends, with up to window chunks outstanding.
func chunks(server string) {
	body := make([]byte, long)
	credit := make(chan struct{}, long/chunk)
	conn, err := nats.Connect(server)
	if err == nil {
		_, err = conn.Subscribe("chunks.credit", func(*nats.Msg) { credit <- struct{}{} })
	}
	if err == nil {
		_, err = conn.Subscribe("chunks", func(m *nats.Msg) {
			for at := 0; at < long; at += chunk {
				if at >= window*chunk {
					<-credit
				}
				_ = m.Respond(body[at : at+chunk])
			}
			for range window {
				<-credit
			}
		})
	}
	serve(err, conn.Flush, conn.Close)
}

// serve reports that a process is ready, and calls end when stdin ends.
func serve(err error, begin func() error, end func()) {
	if err == nil {
		err = begin()
	}
	processtest.Check(err)
	processtest.Ready()
	end()
}

// paired is a run without a host. Its calls return their bodies, or long bytes.
type paired struct {
	link  *link.Link
	pairs *pair.Pairs
}

const (
	pairedFront = "aaaaaaaaaa"
	pairedOwner = "bbbbbbbbbb"
)

func newPaired(server string, self wire.Address) (*paired, error) {
	p := new(paired)
	p.pairs = pair.New(pair.Options{
		Self:    self,
		Sender:  p,
		Unsent:  link.ErrUnsent,
		Node:    p,
		Log:     slog.New(slog.DiscardHandler),
		MaxBody: func(wire.Address) int64 { return 2 * long },
		Batches: func(wire.Address) bool { return true },
	})
	l, err := link.Connect(context.Background(), link.Options{
		Access:   natsclient.Access{URLs: []string{server}},
		Subjects: wire.Subjects{Cluster: "bench"},
		Self:     self,
		NotTaken: func(what string) { p.pairs.NotTaken(what) },
		Received: func(m link.Message) {
			for one := range wire.Messages(m.Data) {
				if h, body, err := wire.Decode(one); err == nil {
					p.pairs.Receive(m.From, h, body)
				}
			}
		},
	})
	p.link = l
	return p, err
}

func (p *paired) Send(to wire.Address, notTaken string, m []byte) error {
	return p.link.Send(to, notTaken, m)
}
func (p *paired) MaxPayload() int { return p.link.MaxPayload() }

func (p *paired) Run(_ context.Context, _ wire.Address, h *wire.Head, body []byte, _ protocol.Peer) ([]byte, error) {
	if h.Method == "long" {
		return make([]byte, long), nil
	}
	return body, nil
}

func (p *paired) Incoming(context.Context, wire.Address, *wire.Head, []byte, bool) ([]byte, error) {
	return nil, nil
}
func (p *paired) Ended(wire.Address, string) {}

// run runs the pairs until end is called.
func (p *paired) run() (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan struct{})
	go func() { defer close(ran); p.pairs.Run(ctx) }()
	return func() {
		stop()
		<-ran
		_ = p.pairs.Close(context.Background())
		_ = p.link.Close(context.Background())
	}
}

// newPairs returns the pairs of a new run, and the address of the run of servePair.
func newPairs(tb testing.TB, server string) (front *pair.Pairs, owner wire.Address) {
	p, err := newPaired(server, wire.Address{Node: "front", Run: pairedFront})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.run())
	return p.pairs, wire.Address{Node: "owner", Run: pairedOwner}
}

func servePair(server string) {
	p, err := newPaired(server, wire.Address{Node: "owner", Run: pairedOwner})
	var end func()
	serve(err, func() error {
		end = p.run()
		_, err := p.link.RTT(context.Background()) // the server knows its subscriptions
		return err
	}, func() { end() })
}

// memory returns the memory of a host in KiB: without a cluster, in a cluster, or with its own hub.
func memory(b *testing.B, at string) float64 {
	c := processtest.Start(b, "memory "+at)
	defer c.Kill()
	var before float64
	for same := 0; same < 5; time.Sleep(100 * time.Millisecond) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Cmd.Process.Pid))
		if err != nil {
			b.Skip(err)
		}
		var now float64
		_, rest, _ := strings.Cut(string(status), "VmRSS:")
		if _, err := fmt.Sscan(rest, &now); err != nil {
			b.Fatal(err)
		}
		if same++; now != before {
			before, same = now, 0
		}
	}
	return before
}

// hostOf runs the host of memory as a process.
func hostOf(at string) {
	dir, err := os.MkdirTemp("", "memory")
	end := func() { _ = os.RemoveAll(dir) }
	serve(err, func() error {
		var n *cluster.Node
		spec := node{Name: "one", As: peers.AsMine, URLs: []string{at}}
		if address, ok := strings.CutPrefix(at, "hub "); ok {
			spec.URLs, spec.Join = nil, dir+"/one.creds"
			files, err := hub.Init(dir+"/hub", "main", []string{"tls://" + address})
			if err != nil {
				return err
			}
			if _, err := hub.Open(context.Background(), hub.Options{Dir: dir + "/hub", Listen: address}); err != nil {
				return err
			}
			text, err := files.Invite(spec.Name)
			if err != nil {
				return err
			}
			if err := os.WriteFile(spec.Join, []byte(text), 0o600); err != nil {
				return err
			}
		}
		if at != "" {
			one, err := cluster.New(nodeOptions(spec))
			if err != nil {
				return err
			}
			n = one
		}
		_, err := openHost(n, dir, "", nil)
		return err
	}, end)
}
