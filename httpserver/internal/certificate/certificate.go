// Package certificate keeps the TLS certificate of a server, which may be replaced while the
// server runs.
package certificate

import (
	"crypto/tls"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Files are a certificate and its key in PEM files. The zero value is no certificate.
type Files struct {
	Cert, Key string // paths; both or neither

	now atomic.Pointer[tls.Certificate]
}

// Reload reads both files again, for later connections. A certificate that has ended is a failure. On failure the
// certificate before stays in use, and the error is a *protocol.Error of kind config_invalid. Without files, Reload
// does nothing.
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

// Check returns an error where Reload would fail, and a warning where the certificate is about to end. It
// returns nil without files.
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

// Ends returns when the certificate of the last Reload ends; nil without one.
func (f *Files) Ends() *time.Time {
	cert := f.now.Load()
	if cert == nil {
		return nil
	}
	return &cert.Leaf.NotAfter
}

// Config returns a configuration that uses the certificate of the last Reload.
func (f *Files) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.now.Load(), nil },
	}
}
