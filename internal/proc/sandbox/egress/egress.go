// Package egress is the only way out of a network namespace: an HTTP proxy that connects to named hosts only.
//
// The proxy resolves names itself, and dials the address that it has checked. So whatever a name server answers, no
// name leads to this machine, its network or the metadata service of a cloud.
package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of a proxy.
const (
	maxConnections = 256
	maxHeader      = 64 << 10
	maxTarget      = 253 + len(":65535") // DNS names are no longer; targets are logged
	headerTimeout  = 10 * time.Second
	dialTimeout    = 15 * time.Second
)

// Attempt records one or more attempts to connect to a target.
type Attempt struct {
	Target  string     // host:port; "" for several targets that were too many to tell apart
	Address netip.Addr // the dialed address; the zero Addr if none was dialed
	Refused string     // why the attempt failed; "" for a connection
	Times   int        // attempts since the last record
}

// Proxy serves one listener.
type Proxy struct {
	hosts  []string
	tally  *tally
	listen net.Listener
	ctx    context.Context
	cancel context.CancelFunc
	slots  chan struct{}
	done   sync.WaitGroup

	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	public func(netip.Addr) bool
}

// Serve starts a proxy that connects to hosts, each host:port. record is called at once for the
// first attempt of each kind, and then at most once a minute with the number of further ones. The
// calls are on many goroutines; nil records none. The caller must call Close, which records the
// remaining attempts.
func Serve(l net.Listener, hosts []string, record func(Attempt)) *Proxy {
	p := prepare(l, hosts, record)
	p.start()
	return p
}

func prepare(l net.Listener, hosts []string, record func(Attempt)) *Proxy {
	if record == nil {
		record = func(Attempt) {}
	}
	p := &Proxy{
		listen: l,
		tally:  newTally(record),
		slots:  make(chan struct{}, maxConnections),
		public: func(a netip.Addr) bool { return Public(a) && !beside(a) },
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
	}
	for _, h := range hosts {
		p.hosts = append(p.hosts, normal(h))
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

func (p *Proxy) start() {
	p.done.Go(p.accept)
	p.done.Go(func() { p.tally.run(p.ctx) })
}

// Close ends the proxy and its connections and waits for them.
func (p *Proxy) Close() error {
	p.cancel()
	err := p.listen.Close()
	p.done.Wait()
	p.tally.tell()
	return err
}

func (p *Proxy) accept() {
	for {
		select {
		case p.slots <- struct{}{}:
		case <-p.ctx.Done():
			return
		}
		c, err := p.listen.Accept()
		if err != nil {
			<-p.slots
			if p.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			select { // out of descriptors, or a connection that ended at once
			case <-time.After(50 * time.Millisecond):
				continue
			case <-p.ctx.Done():
				return
			}
		}
		p.done.Go(func() {
			defer func() { <-p.slots }()
			defer c.Close()
			stop := context.AfterFunc(p.ctx, func() { c.Close() })
			defer stop()
			p.serve(c)
		})
	}
}

// serve handles the only request of a connection.
func (p *Proxy) serve(c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(headerTimeout))
	limited := &io.LimitedReader{R: c, N: maxHeader}
	in := bufio.NewReader(limited)
	r, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	limited.N = 1<<63 - 1
	_ = c.SetReadDeadline(time.Time{})
	target := normal(r.Host)
	if r.Method != http.MethodConnect {
		if r.URL.Scheme != "http" || r.URL.Host == "" {
			answer(c, http.StatusBadRequest, "this is a proxy: it takes CONNECT host:port, and http:// addresses")
			return
		}
		if target = normal(r.URL.Host); !strings.Contains(target, ":") {
			target += ":80"
		}
	}
	if len(target) > maxTarget {
		answer(c, http.StatusBadRequest, "no host has a name of that length")
		return
	}
	up, refused, code := p.dial(target)
	if refused != "" {
		answer(c, code, refused)
		return
	}
	defer up.Close()
	stop := context.AfterFunc(p.ctx, func() { up.Close() })
	defer stop()
	if r.Method == http.MethodConnect {
		if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
			return
		}
		tunnel(c, in, up)
		return
	}
	r.Close = true
	for name := range r.Header {
		if strings.HasPrefix(name, "Proxy-") {
			r.Header.Del(name)
		}
	}
	if r.Write(up) == nil {
		_, _ = io.Copy(c, up)
	}
}

// dial connects to target if it is an allowed host with a public address.
func (p *Proxy) dial(target string) (c net.Conn, refused string, code int) {
	a := Attempt{Target: target}
	defer func() { a.Refused = refused; p.tally.add(a) }()
	if !slices.Contains(p.hosts, target) {
		refused = fmt.Sprintf("the sandbox does not allow %s: net in [sandbox] does not name it", target)
		return nil, refused, http.StatusForbidden
	}
	host, port, _ := net.SplitHostPort(target)
	ctx, cancel := context.WithTimeout(p.ctx, dialTimeout)
	defer cancel()
	all, err := p.lookup(ctx, host)
	if err != nil {
		return nil, fmt.Sprintf("%s is not found: %v", host, err), http.StatusBadGateway
	}
	var failed error
	for _, addr := range all {
		if addr = addr.Unmap(); !p.public(addr) {
			continue
		}
		c, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(addr.String(), port))
		if err == nil {
			a.Address = addr
			return c, "", 0
		}
		failed = err
	}
	if failed == nil {
		refused = host + " has no public address: the sandbox reaches neither this machine nor its network"
		return nil, refused, http.StatusForbidden
	}
	return nil, failed.Error(), http.StatusBadGateway
}

// tunnel copies in both directions until both have ended. in reads what the client sends, and has
// sent before the tunnel was open.
func tunnel(c net.Conn, in io.Reader, up net.Conn) {
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(up, in)
		closeWrite(up)
	})
	_, _ = io.Copy(c, up)
	closeWrite(c)
	both.Wait()
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	c.Close()
}

func answer(c net.Conn, code int, text string) {
	fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: "+
		"close\r\nX-Exthost-Sandbox: refused\r\n\r\n%s\n",
		code, http.StatusText(code), len(text)+1, text)
}

// normal returns the form in which host:port is compared: lower case, without a trailing dot.
func normal(hostport string) string {
	host, port, ok := strings.Cut(strings.ToLower(hostport), ":")
	host = strings.TrimSuffix(host, ".")
	if !ok {
		return host
	}
	return host + ":" + port
}
