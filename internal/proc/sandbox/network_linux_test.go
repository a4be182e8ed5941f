package sandbox_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/proc/sandbox/egress"
	"github.com/exthost/exthost/internal/testing/processtest"
	ask "github.com/exthost/exthost/manifest/sandbox"
)

// networks is what a process with its own network does.
var networks = map[string]func() error{
	"its own loopback": func() error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		return dial("tcp", l.Addr().String())
	},
	"the host's loopback": func() error { return dial("tcp", os.Getenv("TCP")) },
	"a host by its address": func() error {
		c, err := net.DialTimeout("udp", "169.254.169.254:80", time.Second)
		if err == nil {
			_, err = c.Write([]byte("x"))
		}
		return err
	},
	"a name server":    func() error { _, err := net.LookupHost("example.com"); return err },
	"the proxy, named": func() error { return connect("localhost:443") },
	"the proxy, other": func() error { return connect("other.example:443") },
	"the proxy, host":  func() error { return connect(os.Getenv("TCP")) },
}

// connect asks the proxy for target.
func connect(target string) error {
	at, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil || at.Host == "" {
		return fmt.Errorf("no proxy: %w", err)
	}
	c, err := net.Dial("tcp", at.Host)
	if err != nil {
		return err
	}
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", target)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		return errors.New(string(text))
	}
	return nil
}

// A process has its own loopback interface, and reaches named hosts by a proxy only.
func TestNetwork(t *testing.T) {
	processtest.Leaks(t)
	p := newPrey(t)
	place := sandbox.Place{Dir: p.folder, State: p.state, Private: []string{filepath.Dir(p.state)}}
	policies := make(map[string]*sandbox.Policy)
	for name, n := range map[string]ask.Net{"loopback": {ask.NetLoopback}, "hosts": {"localhost:443"}} {
		policy, err := sandbox.Resolve(&ask.Table{Net: n}, place)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := process.Protect(policy, false, nil); err != nil {
			t.Skipf("NOT TESTED: %s: %v", t.Name(), err)
		}
		policies[name] = policy
	}
	var mu sync.Mutex
	var seen []string
	policies["hosts"].Record = func(a egress.Attempt) { mu.Lock(); defer mu.Unlock(); seen = append(seen, a.Target) }
	for _, tt := range []struct{ policy, attack, want string }{
		{"loopback", "its own loopback", "through"}, {"hosts", "its own loopback", "through"},
		{"loopback", "the host's loopback", "held: "}, {"hosts", "the host's loopback", "held: "},
		{"loopback", "a host by its address", "held: "}, {"hosts", "a host by its address", "held: "},
		{"hosts", "a name server", "held: "},
		{"loopback", "the proxy, named", "held: no proxy"},
		{"hosts", "the proxy, named", "held: localhost has no public address"},
		{"hosts", "the proxy, other", "held: the sandbox does not allow other.example:443"},
		{"hosts", "the proxy, host", "held: the sandbox does not allow 127.0.0.1"},
	} {
		if got := p.attack(t, tt.attack,
			func(s *process.Spec) { s.Sandbox = policies[tt.policy] }); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s, %s: %q", tt.policy, tt.attack, got)
		}
	}
	for i, target := range seen {
		if strings.HasPrefix(target, "127.0.0.1:") {
			seen[i] = "the host"
		}
	}
	slices.Sort(seen)
	if diff := cmp.Diff([]string{"localhost:443", "other.example:443", "the host"}, seen); diff != "" {
		t.Error(diff)
	}
	if got := p.attack(t, "the host's loopback", func(*process.Spec) {}); got != "through" {
		t.Errorf("without a sandbox: %q", got)
	}
}
