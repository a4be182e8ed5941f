// Package natsclient configures the NATS client so that a message that it reported as unsent is never sent later, and
// no connection leaks.
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

// Access holds the servers and the identity of a client.
type Access struct {
	URLs []string    // nats://host:port or tls://host:port, at least one
	TLS  *tls.Config // nil: TLS if the server requires it, with the system's CAs

	JWT      string                       // of the user; needs Sign
	NKey     string                       // public key of a user without a JWT; needs Sign
	Sign     func([]byte) ([]byte, error) // signs the nonce of a server
	User     string                       // needs Password
	Password string
	Token    string
}

const (
	dialTimeout = 2 * time.Second // per server
	pingEach    = 2 * time.Second
	pingsMissed = 2
	waitBetween = 50 * time.Millisecond // before reconnecting
	jitter      = 500 * time.Millisecond
)

// Options returns options for a client called name. The client reconnects until a server reports an error that the
// client does not know, such as the one for a message over max_payload. Its connections end with ctx.
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
	// bounds a write to a server that does not read, which would block pings and Close
	o.FlusherTimeout = pingsMissed * pingEach
	// no buffering while disconnected: a message must not arrive after the caller was told that it was not
	// sent
	o.ReconnectBufSize = -1
	o.MaxReconnect, o.ReconnectWait, o.ReconnectJitter, o.ReconnectJitterTLS = -1, waitBetween, jitter, jitter
	return o
}

// IsRefusal reports whether err says that a server rejects the credentials.
func IsRefusal(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAccountAuthExpired)
}

// IsUnsent reports whether err, from a publish, guarantees that nobody receives the message. After any other
// error somebody may receive it.
func IsUnsent(err error) bool {
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrReconnectBufExceeded) ||
		errors.Is(err, nats.ErrConnectionClosed) ||
		errors.Is(err, nats.ErrConnectionDraining) || errors.Is(err, nats.ErrBadSubject)
}

// dialer dials until ctx ends, and then closes all its connections: the NATS client leaks a connection if it is closed
// while waiting for the server's greeting. dialer resolves names itself, because the client would do so under its lock
// and without a timeout.
type dialer struct{ ctx context.Context }

// Dial implements [nats.CustomDialer]. It tries the addresses of a name in random order.
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
		c, err = (&net.Dialer{Timeout: dialTimeout}).DialContext(d.ctx, network, net.JoinHostPort(a, port))
		if err == nil {
			return &dialed{c, context.AfterFunc(d.ctx, func() { _ = c.Close() })}, nil
		}
	}
	return nil, err
}

// dialed is a connection that ends with the dialer's context.
type dialed struct {
	net.Conn
	forget func() bool
}

// Write implements [net.Conn]. It closes the connection after an error, because the server would read further
// bytes as the rest of the truncated message.
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
