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

// crossing is a message between a node and a server, on its way over a proxy.
type crossing struct {
	up      bool // to the server
	subject string
	head    wire.Head // of a message without one, zero
	raw     []byte    // as the server and the client of NATS say it
}

// cut is what a proxy does with a message that it sends half of before it closes the connection.
const cut = -1

// proxy stands between a node and a server, and sends each message as often as pass says. It ends
// with the test.
func proxy(t testing.TB, server string, pass func(crossing) int) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	var mu sync.Mutex // guards what follows
	var open []net.Conn
	closed := false
	keep := func(list ...net.Conn) bool {
		mu.Lock()
		defer mu.Unlock()
		open = append(open, list...)
		return !closed
	}
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		closed = true
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		work.Wait()
	})
	work.Go(func() {
		for {
			node, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", strings.TrimPrefix(server, "nats://"))
			if err != nil {
				_ = node.Close()
				continue
			}
			if !keep(node, far) {
				_, _ = node.Close(), far.Close()
				return
			}
			for _, way := range []struct {
				from, to net.Conn
				up       bool
			}{{node, far, true}, {far, node, false}} {
				work.Go(func() {
					defer node.Close()
					defer far.Close()
					convey(way.from, way.to, way.up, pass)
				})
			}
		}
	})
	return "nats://" + l.Addr().String()
}

// convey hands on what comes until a connection ends.
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
		if h, _, err := wire.Decode(body[:n]); err == nil {
			c.head = *h
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
