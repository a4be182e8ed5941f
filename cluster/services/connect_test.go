package services_test

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost/cluster/services"
	"github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/process/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// impostor takes the connections of clients of NATS, and says some more after its first PONG. It
// ends with the test.
func impostor(t *testing.T, more string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	t.Cleanup(func() { l.Close(); work.Wait() })
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				fmt.Fprint(c, `INFO {"server_id":"x","version":"2.10.0","proto":1,"max_payload":1048576,"headers":true}`+"\r\n")
				for in := bufio.NewScanner(c); in.Scan(); {
					if in.Text() == "PING" {
						fmt.Fprint(c, "PONG\r\n", more)
					}
				}
			})
		}
	})
	return "nats://" + l.Addr().String()
}

// connect connects to the service far-1 at a server.
func connect(t *testing.T, url string) (jsonrpc.Transport, error) {
	t.Helper()
	return services.New(cluster.Membership{}).Connect(t.Context(), &runtime.Spec{ID: "far-1", Logger: slog.New(slog.DiscardHandler),
		Options:  manifest.Options{MaxLineBytes: 1 << 20, MaxInFlight: 64},
		Manifest: &manifest.Manifest{Transport: manifest.Transport{Kind: manifest.KindNATS, SubjectPrefix: "ext", URL: url}}})
}

// A server may close a connection at any moment of the connecting. The error says what it said, and
// nothing waits for ever.
func TestClosedAtOnce(t *testing.T) {
	processtest.Leaks(t)
	url := impostor(t, "-ERR 'go away'\r\n")
	over := make(chan error)
	for range 5000 { // the moment is another each time
		go func() {
			c, err := connect(t, url)
			if err == nil {
				_, err = c.Read()
				c.Close()
			}
			over <- err
		}()
		select {
		case err := <-over:
			if fault, ok := errors.AsType[*protocol.Error](err); !ok || !strings.Contains(fault.Message, "go away") {
				t.Fatalf("%T: %v", err, err)
			}
		case <-time.After(patience):
			t.Fatal("it hangs")
		}
	}
}
