//go:build !slim

package traces

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
)

// advice returns what to do about err, the reason why spans could not be sent to endpoint.
func advice(endpoint string, err error) string {
	text := err.Error()
	says := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(text, w) {
				return true
			}
		}
		return false
	}
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, otherName := errors.AsType[x509.HostnameError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case isInvalid && invalid.Reason == x509.Expired:
		return "renew the certificate of the collector, or correct the clock of this machine"
	case unknown:
		return "name the file with the certificate of its authority in OTEL_EXPORTER_OTLP_CERTIFICATE, and start the " +
			"host again"
	case otherName:
		return "state a name in otel.endpoint that the certificate of the collector has"
	case noTLS || says("HTTP response to HTTPS client"):
		return "the collector speaks no TLS at this address: state http:// in otel.endpoint, or its port for https"
	case says("HTTP request to an HTTPS server"):
		return "the collector speaks TLS at this address: state https:// in otel.endpoint"
	// the exporter loses a response that came before the connection was closed
	case strings.HasPrefix(endpoint, "http://") && says("connection reset", "EOF", "malformed HTTP response"):
		return "state https:// in otel.endpoint if the collector speaks TLS at this address; else see why it closes " +
			"connections"
	case says(": 401 ", ": 403 "):
		return "state the token that the collector wants in otel.headers, and start the host again"
	case says(": 404 ", ": 405 "):
		return "the collector takes no traces at this address: correct otel.endpoint, to which /v1/traces is appended"
	case says("answers with a redirect"):
		return "state the address that the redirect leads to in otel.endpoint"
	}
	return "start the collector, or correct otel.endpoint; exthost status counts what is lost"
}
