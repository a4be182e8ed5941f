package cluster_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost/cluster/internal/wire"
)

// crossing is a message between a node and a server, on its way through a proxy.
type crossing struct {
	up      bool // to the server
	subject string
	head    wire.Head // of the first message in a batch; zero without a head
	raw     []byte    // in the NATS protocol
}

// cut makes a proxy send half of a message, and close the connection.
const cut = -1

// proxy stands between a node and a server, or between two servers.
type proxy struct {
	listener net.Listener
	work     sync.WaitGroup

	mu   sync.Mutex // guards what follows
	open []net.Conn
	off  bool // no connections are accepted
}

// newProxy runs a proxy until the end of the test. It sends each message as many times as pass returns; if pass is nil,
// once.
func newProxy(t testing.TB, server string, pass func(crossing) int) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if pass == nil {
		pass = func(crossing) int { return 1 }
	}
	p := &proxy{listener: l}
	t.Cleanup(func() {
		_ = l.Close()
		p.cutOff(true)
		p.work.Wait()
	})
	p.work.Go(func() {
		for {
			node, err := l.Accept()
			if err != nil {
				return
			}
			p.connect(node, strings.TrimPrefix(server, "nats://"), pass)
		}
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) url() string { return "nats://" + p.address() }

// cutOff closes all connections and accepts none, or accepts connections again.
func (p *proxy) cutOff(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = yes
	for _, c := range p.open {
		_ = c.Close()
	}
	p.open = nil
}

func (p *proxy) connect(node net.Conn, server string, pass func(crossing) int) {
	remote, err := net.Dial("tcp", server)
	if err != nil {
		_ = node.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off {
		_, _ = node.Close(), remote.Close()
		return
	}
	p.open = append(p.open, node, remote)
	for _, way := range []struct {
		from, to net.Conn
		up       bool
	}{{node, remote, true}, {remote, node, false}} {
		p.work.Go(func() {
			defer node.Close()
			defer remote.Close()
			convey(way.from, way.to, way.up, pass)
		})
	}
}

// convey passes messages on until a connection ends.
func convey(from io.Reader, to io.Writer, up bool, pass func(crossing) int) {
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		words := strings.Fields(string(line))
		switch {
		case len(words) < 3 || !strings.HasSuffix(words[0], "PUB") && !strings.HasSuffix(words[0], "MSG"):
			if _, err := to.Write(line); err != nil {
				return
			}
			continue
		}
		n, _ := strconv.Atoi(words[len(words)-1])
		body := make([]byte, n+2)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		c := crossing{up: up, subject: words[1], raw: append(bytes.Clone(line), body...)}
		for first := range wire.Messages(body[:n]) {
			if h, _, err := wire.Decode(first); err == nil {
				c.head = *h
			}
			break
		}
		times := pass(c)
		if times == cut {
			_, _ = to.Write(c.raw[:len(c.raw)/2])
			return
		}
		for range times {
			if _, err := to.Write(c.raw); err != nil {
				return
			}
		}
	}
}

// body returns the message without the NATS protocol.
func (c crossing) body() []byte {
	_, body, _ := bytes.Cut(c.raw, []byte("\r\n"))
	return bytes.TrimSuffix(body, []byte("\r\n"))
}
