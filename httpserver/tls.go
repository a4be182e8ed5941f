package httpserver

import (
	"crypto/tls"

	"github.com/exthost/exthost/protocol"
)

// ReloadTLS reads the certificate and its key again, for connections from now on.
// When they cannot be used the error, a *protocol.Error of kind config_invalid, says
// why, and the ones before stay. A server without TLS has nothing to read.
func (s *Server) ReloadTLS() error {
	if s.options.CertFile == "" {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(s.options.CertFile, s.options.KeyFile)
	if err != nil {
		return protocol.Errorf(protocol.ConfigInvalid, "server.tls: %w", err)
	}
	s.certificate.Store(&cert)
	return nil
}

// tlsConfig serves whatever certificate was read last.
func (s *Server) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate.Load(), nil },
	}
}
