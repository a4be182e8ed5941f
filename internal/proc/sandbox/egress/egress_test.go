package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// proxied returns a client of a proxy for hosts. All names resolve to this machine, whose addresses count as public
// here.
func proxied(t *testing.T, hosts []string, change func(*Proxy)) (*http.Client, *Proxy, func() []Attempt) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen []Attempt
	p := prepare(l, hosts, func(a Attempt) { mu.Lock(); defer mu.Unlock(); seen = append(seen, a) })
	p.lookup = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("127.0.0.1")}, nil
	}
	p.public = netip.Addr.IsLoopback
	if change != nil {
		change(p)
	}
	p.start()
	t.Cleanup(func() { p.Close() })
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: l.Addr().String()})}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{
		Transport: tr,
		Timeout:   time.Minute,
	}, p, func() []Attempt { mu.Lock(); defer mu.Unlock(); return seen }
}

func get(t *testing.T, c *http.Client, address string) (string, error) {
	t.Helper()
	res, err := c.Get(address)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		return "", errors.New(strings.TrimSpace(string(text)))
	}
	return string(text), err
}

func TestNamedHosts(t *testing.T) {
	processtest.Leaks(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello ", r.Host)
	}))
	defer server.Close()
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "plain ", r.Host, r.URL.Path, r.Header.Get("Proxy-Authorization"))
	}))
	defer plain.Close()
	port, plainPort := server.URL[strings.LastIndexByte(server.URL, ':'):], plain.URL[strings.LastIndexByte(plain.URL,
		':'):]
	client, _, seen := proxied(t, []string{"Example.com" + port, "example.com" + plainPort}, nil)
	client.Transport.(*http.Transport).TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
	if text, err := get(t, client, "https://example.COM"+port); err != nil ||
		!strings.EqualFold(text, "hello example.com"+port) {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := get(t, client, "http://example.com"+plainPort+"/x"); err != nil ||
		text != "plain example.com"+plainPort+"/x" {
		t.Errorf("%q, %v", text, err)
	}
	for _, other := range []string{
		"https://example.com:1",
		"https://evil.example" + port,
		"https://127.0.0.1" + port,
		"http://example.com",
		"http://169.254.169.254/latest",
		"https://[::1]" + port,
	} {
		if text, err := get(t, client, other); err == nil {
			t.Errorf("%s: %q", other, text)
		}
	}
	all := seen()
	want := Attempt{Target: "example.com" + port, Address: netip.MustParseAddr("127.0.0.1"), Times: 1}
	if diff := cmp.Diff(want, all[0], cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	for _, a := range all[2:] {
		if a.Refused == "" || a.Address.IsValid() {
			t.Errorf("%+v", a)
		}
	}
}

// A name that leads to this machine or its network is refused even if it is listed.
func TestPrivateAddresses(t *testing.T) {
	processtest.Leaks(t)
	for _, addr := range []string{"127.0.0.1", "::1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254",
		"fe80::1", "fd00:ec2::254", "0.0.0.0", "::",
		"100.100.100.200", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::",
		"224.0.0.1", "255.255.255.255", "::127.0.0.1", "168.63.129.16", "fec0::1", "::ffff:0:7f00:1", "4000::1",
		"64:ff9b:1::7f00:1", "100::1", "5f00::1", "3fff::1", "2001:db8::1", "2001::1"} {
		if Public(netip.MustParseAddr(addr)) {
			t.Errorf("%s is public", addr)
		}
	}
	for _, addr := range []string{"1.1.1.1", "140.82.121.4", "2606:4700::1111", "::ffff:1.1.1.1"} {
		if !Public(netip.MustParseAddr(addr)) {
			t.Errorf("%s is not public", addr)
		}
	}
	client, _, seen := proxied(t, []string{"localhost:443"}, func(p *Proxy) { p.public = Public })
	if _, err := get(t, client, "https://localhost:443"); err == nil ||
		!strings.Contains(seen()[0].Refused, "no public address") {
		t.Errorf("%v, %+v", err, seen())
	}
}

// Close ends silent connections, open tunnels, and lookups.
func TestClose(t *testing.T) {
	processtest.Leaks(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	looked := make(chan struct{})
	_, p, _ := proxied(t, []string{"open.example:" + l.Addr().String()[10:], "slow.example:1"}, func(p *Proxy) {
		all := p.lookup
		p.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			if host == "slow.example" {
				close(looked)
				<-ctx.Done()
			}
			return all(ctx, host)
		}
	})
	connect := func(line string) net.Conn {
		c, err := net.Dial("tcp", p.listen.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprint(c, line)
		return c
	}
	silent := connect("")
	slow := connect("CONNECT slow.example:1 HTTP/1.1\r\nHost: slow.example:1\r\n\r\n")
	open := connect("CONNECT open.example:" + l.Addr().String()[10:] + " HTTP/1.1\r\nHost: x\r\n\r\nearly")
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	early := make([]byte, 5)
	if _, err := io.ReadFull(far, early); err != nil || string(early) != "early" {
		t.Fatalf("%q, %v", early, err)
	}
	res, err := http.ReadResponse(bufio.NewReader(open), nil)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
	<-looked
	p.Close()
	for _, c := range []net.Conn{silent, slow, open, far} {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	}
}

// A public address of this machine leads to the services of this machine, and a public address of
// its network to its neighbours.
func TestBeside(t *testing.T) {
	all, err := net.InterfaceAddrs()
	if err != nil || len(all) == 0 {
		t.Skipf("NOT TESTED: %s: no interface: %v", t.Name(), err)
	}
	for _, a := range all {
		addr, ok := netip.AddrFromSlice(a.(*net.IPNet).IP)
		if !ok || !beside(addr) {
			t.Errorf("%v is not of this machine", a)
		}
	}
	for _, far := range []string{"1.1.1.1", "2606:4700::1111"} {
		if beside(netip.MustParseAddr(far)) {
			t.Errorf("%s is of this machine", far)
		}
	}
}

// Requests that try to reach something else, or to keep the proxy busy.
func TestOddRequests(t *testing.T) {
	processtest.Leaks(t)
	_, p, seen := proxied(t, []string{"good.example:443"}, nil)
	for _, head := range []string{
		"CONNECT good.example:443@evil.example:443 HTTP/1.1\r\nHost: good.example:443\r\n\r\n",
		"CONNECT evil.example:443 HTTP/1.1\r\nHost: good.example:443\r\n\r\n",
		"CONNECT good.example:22 HTTP/1.1\r\nHost: good.example:443\r\n\r\n",
		"CONNECT good.example:443:22 HTTP/1.1\r\n\r\n",
		"CONNECT good.example:443/../evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT [::ffff:127.0.0.1]:443 HTTP/1.1\r\nHost: good.example:443\r\n\r\n",
		"CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: good.example:443\r\n\r\n",
		"CONNECT 2130706433:443 HTTP/1.1\r\n\r\n",
		"GET http://good.example:443@evil.example/ HTTP/1.1\r\nHost: good.example:443\r\n\r\n",
		"GET http://evil.example:443/ HTTP/1.1\r\nHost: good.example:443\r\n\r\n",
		"GET https://good.example:443/ HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: good.example:443\r\n\r\n",
		"CONNECT good.example:443 HTTP/1.1\r\nX: " + strings.Repeat("x", 2*maxHeader) + "\r\n\r\n",
		"CONNECT good.example:443\x00 HTTP/1.1\r\n\r\n",
		"CONNECT " + strings.Repeat("x", maxTarget) + ":443 HTTP/1.1\r\n\r\n",
	} {
		c, err := net.Dial("tcp", p.listen.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		go fmt.Fprint(c, head) // ends with c at the latest
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil && res.StatusCode < 400 {
			t.Errorf("%.60q: %s", head, res.Status)
		}
		c.Close()
	}
	for _, a := range seen() {
		if a.Refused == "" || a.Address.IsValid() || len(a.Target) > maxTarget {
			t.Errorf("%+v", a)
		}
	}
}

// Unrecorded attempts are recorded by Close.
func TestRepeatedAttempts(t *testing.T) {
	processtest.Leaks(t)
	client, p, seen := proxied(t, nil, nil)
	const asked = 20
	for range asked {
		if _, err := get(t, client, "http://other.example/"); err == nil {
			t.Fatal("connected")
		}
	}
	if got := seen(); len(got) != 1 || got[0].Times != 1 {
		t.Errorf("%d attempts at once: %+v", len(got), got)
	}
	p.Close()
	if got := seen(); len(got) != 2 || got[1].Times != asked-1 || got[1].Target != "other.example:80" {
		t.Errorf("at the end: %+v", got)
	}
}
