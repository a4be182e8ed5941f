// Package certificate keeps the TLS certificate of a server, which may be replaced while the
// server runs.
package certificate

import (
	"crypto/tls"
	"sync/atomic"

	"github.com/exthost/exthost/protocol"
)

// Files are a certificate and its key in PEM files. The zero value is no certificate.
type Files struct {
	Cert, Key string // paths; both or neither

	now atomic.Pointer[tls.Certificate]
}

// Reload reads both files again, for later connections. On failure the certificate before stays
// in use, and the error is a *protocol.Error of kind config_invalid. Without files, Reload does
// nothing.
func (f *Files) Reload() error {
	if f.Cert == "" {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return protocol.Errorf(protocol.ConfigInvalid, "server.tls: %w", err)
	}
	f.now.Store(&cert)
	return nil
}

// Config returns a configuration that uses the certificate of the last Reload.
func (f *Files) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.now.Load(), nil },
	}
}
