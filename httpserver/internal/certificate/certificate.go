// Package certificate manages the TLS certificate of a server, which may be replaced while the server runs.
package certificate

import (
	"crypto/tls"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Files are PEM files of a certificate and its key. The zero value means no certificate.
type Files struct {
	Cert, Key string // paths; both or neither

	now atomic.Pointer[tls.Certificate]
}

// Reload reads both files for later connections. On failure, also if the certificate has expired, the previous
// certificate stays in use and the error is a *protocol.Error of kind config_invalid. Without files Reload does
// nothing.
func (f *Files) Reload() error {
	if f.Cert == "" {
		return nil
	}
	cert, d := f.read()
	if d != nil && d.Level == protocol.LevelError {
		return protocol.Errorf(protocol.ConfigInvalid, "%s", d)
	}
	f.now.Store(cert)
	return nil
}

// Check returns an error if Reload would fail, a warning if the certificate expires soon, else nil.
func (f *Files) Check() (d *protocol.Diagnostic) {
	if f.Cert != "" {
		_, d = f.read()
	}
	return d
}

func (f *Files) read() (*tls.Certificate, *protocol.Diagnostic) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
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

// Ends returns when the current certificate expires, or nil without one.
func (f *Files) Ends() *time.Time {
	cert := f.now.Load()
	if cert == nil {
		return nil
	}
	return &cert.Leaf.NotAfter
}

// Config returns a TLS configuration that uses the current certificate.
func (f *Files) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.now.Load(), nil },
	}
}
