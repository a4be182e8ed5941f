package httpserver

import (
	"crypto/tls"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// TLS contains the paths of PEM files of a certificate and its key.
type TLS struct{ Cert, Key string }

// certificate is a TLS certificate in files, which can be reloaded while the server runs. The zero value means no
// certificate.
type certificate struct {
	files TLS // paths; both or neither

	now atomic.Pointer[tls.Certificate]
}

// reload reads both files for later connections. On failure, also if the certificate has expired, the previous
// certificate stays in use and the error is a *protocol.Error of kind config_invalid. Without files reload does
// nothing.
func (c *certificate) reload() error {
	if c.files.Cert == "" {
		return nil
	}
	cert, d := c.read()
	if d != nil && d.Level == protocol.LevelError {
		return protocol.Errorf(protocol.ConfigInvalid, "%s", d)
	}
	c.now.Store(cert)
	return nil
}

// check returns an error if reload would fail, a warning if the certificate expires soon, else nil.
func (c *certificate) check() (d *protocol.Diagnostic) {
	if c.files.Cert != "" {
		_, d = c.read()
	}
	return d
}

func (c *certificate) read() (*tls.Certificate, *protocol.Diagnostic) {
	cert, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return nil, &protocol.Diagnostic{
			Level:   protocol.LevelError,
			Code:    string(protocol.ConfigInvalid),
			Message: "server.tls: " + err.Error(),
			Hint:    "exthost config show --origin",
		}
	}
	return &cert, status.Certificate(cert.Leaf.NotAfter, time.Now())
}

// ends returns when the current certificate expires, or nil without one.
func (c *certificate) ends() *time.Time {
	cert := c.now.Load()
	if cert == nil {
		return nil
	}
	return &cert.Leaf.NotAfter
}

// config returns a TLS configuration that uses the current certificate.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now.Load(), nil },
	}
}
