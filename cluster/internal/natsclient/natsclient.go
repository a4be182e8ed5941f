// Package natsclient sets up the client of NATS so that nothing is sent after its sender was told that
// it is not, and nothing stays open.
package natsclient

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"github.com/nats-io/nats.go"
)

// Access is where and as whom a client connects.
type Access struct {
	URLs []string    // nats://host:port or tls://host:port, at least one
	TLS  *tls.Config // nil: as the servers ask, with the certificates of the system

	JWT      string                       // of the user, with Sign
	NKey     string                       // the public key of a user without a JWT, with Sign
	Sign     func([]byte) ([]byte, error) // signs what the server asks to
	User     string                       // with Password
	Password string
	Token    string
}

const (
	dialTimeout = 2 * time.Second // for each server
	pingEach    = 2 * time.Second
	pingsMissed = 2
	waitBetween = 50 * time.Millisecond // before a connection is made anew
	jitter      = 500 * time.Millisecond
)

// Options returns the options of a client with that name, which connects anew until a server says an
// error that it does not know, such as of a message over max_payload. Its connections end with ctx.
func (a *Access) Options(ctx context.Context, name string) nats.Options {
	o := nats.GetDefaultOptions()
	o.Servers, o.Name = a.URLs, name
	o.TLSConfig, o.Secure = a.TLS, a.TLS != nil
	o.User, o.Password, o.Token = a.User, a.Password, a.Token
	o.Nkey, o.SignatureCB = a.NKey, a.Sign
	if a.JWT != "" {
		o.UserJWT = func() (string, error) { return a.JWT, nil }
	}
	o.CustomDialer, o.SkipHostLookup = dialer{ctx}, true
	o.Timeout, o.PingInterval, o.MaxPingsOut = dialTimeout, pingEach, pingsMissed
	// a write that waits for a server that reads nothing keeps pings and Close from their work
	o.FlusherTimeout = pingsMissed * pingEach
	// what is sent while there is no connection must not run after the caller was told that it does not
	o.ReconnectBufSize = -1
	o.MaxReconnect, o.ReconnectWait, o.ReconnectJitter, o.ReconnectJitterTLS = -1, waitBetween, jitter, jitter
	return o
}

// IsRefusal reports whether an error says that a server does not take the credentials.
func IsRefusal(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAccountAuthExpired)
}

// IsUnsent reports whether an error of a publish says that nobody gets the message. After any other
// error somebody may.
func IsUnsent(err error) bool {
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrReconnectBufExceeded) ||
		errors.Is(err, nats.ErrConnectionClosed) ||
		errors.Is(err, nats.ErrConnectionDraining) || errors.Is(err, nats.ErrBadSubject)
}

// dialer dials until ctx ends, and then closes what the client leaves open: a connection whose
// greeting failed while the client was closed. It looks names up itself, as the client does so without
// end while it holds its lock.
type dialer struct{ ctx context.Context }

// Dial implements [nats.CustomDialer]. It tries the addresses of a name in any order.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	looking, cancel := context.WithTimeout(d.ctx, dialTimeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(looking, host)
	rand.Shuffle(len(addresses), func(i, k int) { addresses[i], addresses[k] = addresses[k], addresses[i] })
	for _, a := range addresses {
		var c net.Conn
		if c, err = (&net.Dialer{Timeout: dialTimeout}).DialContext(d.ctx, network,
			net.JoinHostPort(a, port)); err == nil {
			return &dialed{c, context.AfterFunc(d.ctx, func() { _ = c.Close() })}, nil
		}
	}
	return nil, err
}

// dialed is a connection of a dialer.
type dialed struct {
	net.Conn
	forget func() bool
}

// Write implements [net.Conn]. After a write that failed nothing more is written: a server would take
// it for the rest of the message that was cut.
func (c *dialed) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		_ = c.Close()
	}
	return n, err
}

// Close implements [net.Conn].
func (c *dialed) Close() error {
	c.forget()
	return c.Conn.Close()
}
