//go:build !slim

package hub

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/time/rate"

	"github.com/exthost/exthost/cluster/internal/credentials"
	"github.com/exthost/exthost/cluster/internal/throttle"
	"github.com/exthost/exthost/internal/file"
)

// Hub is a NATS server in this process. It follows the files in its directory: invited nodes can connect, and
// revoked nodes are disconnected, within a second.
type Hub struct {
	files    *Files
	name     string // of the cluster
	account  string // public key of the nodes' account
	resolver *server.MemAccResolver
	server   *server.Server
	log      *slog.Logger
	stop     context.CancelFunc
	work     sync.WaitGroup
	told     chan []byte // the newest record, to be published to other hubs
	newest   []byte      // the last record from told; used by converse alone
	peers    []string    // addresses of the other hubs
	counts   bool        // stores the counters of shared limits
	revoked  []string    // keys that the server's claims revoke
}

// Open starts a server and waits up to 30 s until it accepts connections. It fails if the address is in use.
// The caller must close the hub.
func Open(ctx context.Context, o Options) (*Hub, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f, err := OpenFiles(o.Dir)
	if err != nil {
		return nil, err
	}
	r, err := f.record()
	if err != nil {
		return nil, err
	}
	h := &Hub{
		files:    f,
		name:     r.Name,
		log:      slog.New(throttle.New(o.Log.Handler())), // failing work is tried again every second
		resolver: new(server.MemAccResolver),
		told:     make(chan []byte, 1),
		peers:    otherHubs(o.Peers, o.Routes),
		counts:   o.Store != "",
	}
	so, err := h.options(o)
	if err != nil {
		return nil, err
	}
	if err := h.admit(r); err != nil {
		return nil, err
	}
	if h.server, err = server.NewServer(so); err != nil {
		return nil, fmt.Errorf("the hub does not start: %w", err)
	}
	if h.counts {
		// The server clears the directory of an account that it meets for the first time. It must meet the nodes'
		// account before it serves: meanwhile, a second connection could store counters in that directory.
		if _, err := h.server.LookupAccount(h.account); err != nil {
			return nil, fmt.Errorf("the hub does not start: %w", err)
		}
	}
	l := &logger{log: o.Log, fatal: make(chan string, 1), warned: rate.Sometimes{First: 20, Interval: 10 * time.Second}}
	h.server.SetLogger(l, false, false)
	if err := h.start(ctx, l.fatal); err != nil {
		h.server.Shutdown()
		h.server.WaitForShutdown()
		return nil, err
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.stop = stop
	h.work.Go(func() { h.follow(working) })
	if so.Cluster.Port != 0 {
		h.work.Go(func() { h.talk(working) })
	}
	if h.counts {
		h.work.Go(func() { h.maintain(working) })
		h.work.Go(func() { h.relay(working) })
	}
	return h, nil
}

// start starts the server and waits until it accepts connections, for up to startTimeout.
func (h *Hub) start(ctx context.Context, fatal <-chan string) error {
	h.server.Start()
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("it does not take connections within %v", startTimeout))
	defer cancel()
	for !h.server.ReadyForConnections(readyStep) {
		select {
		case text := <-fatal:
			return fmt.Errorf("the hub does not start: %s; state another address as cluster.hub.listen, if this one "+
				"is taken, or make the directory of its state writable", text)
		case <-ctx.Done():
			return fmt.Errorf("the hub does not start: %w", context.Cause(ctx))
		default:
		}
	}
	return nil
}

func (h *Hub) options(o Options) (*server.Options, error) {
	host, port, err := hostPort(o.Listen)
	if err != nil {
		return nil, err
	}
	operator, system, err := h.trust()
	if err != nil {
		return nil, err
	}
	cert, err := h.files.ca.issue(h.name)
	if err != nil {
		return nil, err
	}
	so := &server.Options{
		ServerName:       serverName(),
		Host:             host,
		Port:             port,
		NoSigs:           true,
		NoLog:            true,
		MaxPayload:       maxPayload,
		MaxConn:          maxConnections,
		TLS:              true,
		TLSConfig:        &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}},
		TLSTimeout:       handshakeTimeout.Seconds(),
		AuthTimeout:      handshakeTimeout.Seconds(),
		TrustedOperators: []*jwt.OperatorClaims{operator},
		AccountResolver:  h.resolver,
		SystemAccount:    system,
	}
	if o.Store != "" {
		if err := keepCounters(so, o.Store); err != nil {
			return nil, fmt.Errorf("no place for the counters of shared limits: %w", err)
		}
	}
	if o.Routes == "" {
		return so, nil
	}
	if host, port, err = hostPort(o.Routes); err != nil {
		return nil, err
	}
	so.Cluster = server.ClusterOpts{
		Name:        h.name,
		Host:        host,
		Port:        port,
		NoAdvertise: true,
		TLSTimeout:  handshakeTimeout.Seconds(),
		TLSConfig: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{cert},
			ServerName:   credentials.ServerName(h.name),
			RootCAs:      h.files.pool(),
			ClientCAs:    h.files.pool(),
			ClientAuth:   tls.RequireAndVerifyClientCert, // only hubs have a certificate
		},
	}
	for _, peer := range o.Peers {
		so.Routes = append(so.Routes, &url.URL{Scheme: "nats-route", Host: peer})
	}
	return so, nil
}

// trust returns the operator claims and the system account.
func (h *Hub) trust() (operator *jwt.OperatorClaims, system string, err error) {
	key, err := h.files.operator.PublicKey()
	if err != nil {
		return nil, "", err
	}
	if system, err = h.files.system.PublicKey(); err != nil {
		return nil, "", err
	}
	if h.account, err = h.files.account.PublicKey(); err != nil {
		return nil, "", err
	}
	claims := jwt.NewOperatorClaims(key)
	claims.Name, claims.SystemAccount = h.name, system
	text, err := claims.Encode(h.files.operator)
	if err != nil {
		return nil, "", err
	}
	if operator, err = jwt.DecodeOperatorClaims(text); err != nil {
		return nil, "", err
	}
	of := jwt.NewAccountClaims(system)
	of.Name = "hubs"
	if text, err = of.Encode(h.files.operator); err != nil {
		return nil, "", err
	}
	return operator, system, h.resolver.Store(system, text)
}

// never is a revocation time that is later than any invitation: the year 9999, in Unix seconds.
const never = 253370764800

// admit applies the revocations in r to the server. Invitations need no change of claims. Claims are only set
// when they change, because each change makes JetStream unavailable to the account for a moment.
func (h *Hub) admit(r *record) error {
	revoked := r.revoked()
	if h.server != nil && slices.Equal(revoked, h.revoked) {
		return nil
	}
	if err := h.setClaims(revoked); err != nil {
		return err
	}
	h.revoked = revoked
	return nil
}

// setClaims sets the claims of the nodes' account, with the revoked keys.
func (h *Hub) setClaims(revoked []string) error {
	claims := jwt.NewAccountClaims(h.account)
	claims.Name = h.name
	if h.counts {
		grantCounters(claims)
	}
	for _, key := range revoked {
		claims.RevokeAt(key, time.Unix(never, 0))
	}
	text, err := claims.Encode(h.files.operator)
	if err != nil {
		return err
	}
	if err := h.resolver.Store(h.account, text); err != nil || h.server == nil {
		return err
	}
	a, err := h.server.LookupAccount(h.account)
	if err != nil {
		return err
	}
	decoded, err := jwt.DecodeAccountClaims(text)
	if err != nil {
		return err
	}
	h.server.UpdateAccountClaims(a, decoded)
	return nil
}

// follow applies the record file whenever it changes.
func (h *Hub) follow(ctx context.Context) {
	tick := time.NewTicker(followEach)
	defer tick.Stop()
	var seen file.Version // of the applied file; while the last change is recent, the file is read at every tick
	var admitted []byte
	for {
		info, err := os.Stat(filepath.Join(h.files.dir, recordFile))
		if err != nil || !seen.Is(file.VersionOf(info)) {
			r, wrong := h.files.record()
			if wrong == nil && !bytes.Equal(r.bytes(), admitted) {
				if wrong = h.admit(r); wrong == nil {
					admitted = r.bytes()
					h.tell(r)
				}
			}
			switch {
			case wrong == nil && err == nil:
				seen = file.VersionOf(info)
			case wrong == nil: // the file was replaced between Stat and record
			default:
				h.log.Error("the hub does not follow its files: who was invited stays, and who was revoked since can "+
					"still connect", "error", wrong)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// URL returns the address for nodes on this machine.
func (h *Hub) URL() string {
	host, port, err := net.SplitHostPort(h.server.Addr().String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "tls://" + net.JoinHostPort(host, port)
}

// Close shuts the server down, and waits until it has ended or ctx ends.
func (h *Hub) Close(ctx context.Context) error {
	h.stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.server.Shutdown()
		h.server.WaitForShutdown()
		h.work.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.New("the hub has not ended in time")
	}
}

// serverName distinguishes the servers of a cluster in their logs.
func serverName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "hub"
	}
	return host + "-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
}

func hostPort(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("the address %q of the hub is not host:port", address)
	}
	if port, err = strconv.Atoi(text); err != nil {
		return "", 0, fmt.Errorf("the address %q of the hub is not host:port", address)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

// logger receives the log of the NATS server.
type logger struct {
	log    *slog.Logger
	fatal  chan string    // the first fatal error
	warned rate.Sometimes // limits warnings, since refused clients retry constantly
}

func (l *logger) Noticef(format string, v ...any) { l.log.Debug("hub: " + fmt.Sprintf(format, v...)) }
func (l *logger) Debugf(string, ...any)           {}
func (l *logger) Tracef(string, ...any)           {}
func (l *logger) Warnf(format string, v ...any) {
	l.warned.Do(func() { l.log.Warn("hub: " + fmt.Sprintf(format, v...)) })
}
func (l *logger) Errorf(format string, v ...any) { l.Warnf(format, v...) }

func (l *logger) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.log.Error("hub: " + text)
	select {
	case l.fatal <- text:
	default:
	}
}
