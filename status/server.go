package status

import (
	"fmt"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Server is the state of the HTTP server in front of a host.
type Server struct {
	RejectedTokens   Refusals   `json:"rejected_tokens"`            // requests with an invalid or expired token
	FailedHandshakes Refusals   `json:"failed_handshakes"`          // TLS handshakes
	CertificateEnds  *time.Time `json:"certificate_ends,omitempty"` // expiry of the certificate in use; nil without TLS
	Dashboard        string     `json:"dashboard,omitempty"`        // its URL on this machine; "" if it is not served
}

// Refusals counts refusals since the server started.
type Refusals struct {
	Count int64    `json:"count"`
	Last  *Refusal `json:"last,omitempty"`
}

// Refusal is one refused request or handshake.
type Refusal struct {
	Time   time.Time `json:"time"`
	From   string    `json:"from"`             // remote address
	Client string    `json:"client,omitempty"` // the named client that the token belonged to
	Reason string    `json:"reason"`
}

// CertificateWarning is how long before its expiry a certificate causes a warning.
const CertificateWarning = 21 * 24 * time.Hour

// attention is how long after a refusal the status warns about it.
const attention = 10 * time.Minute

// Codes of the diagnostics about a server.
const (
	CodeTokenRejected    = "token_rejected"
	CodeHandshakeFailed  = "tls_handshake_failed"
	CodeCertificateEnded = "certificate_ended"
	CodeCertificateEnds  = "certificate_ends"
)

// Diagnostics returns what needs an operator's attention.
func (s *Server) Diagnostics(now time.Time) (diags []protocol.Diagnostic) {
	if s.CertificateEnds != nil {
		if d := Certificate(*s.CertificateEnds, now); d != nil {
			d.Level = protocol.LevelWarn // the host runs nevertheless
			diags = append(diags, *d)
		}
	}
	for _, of := range []struct {
		refusals         Refusals
		code, what, hint string
	}{
		{s.RejectedTokens, CodeTokenRejected, "requests with a token that is wrong or has ended",
			"exthost logs --level warn shows from where; exthost client rotate NAME makes a new token"},
		{s.FailedHandshakes, CodeHandshakeFailed, "TLS handshakes that failed",
			"exthost logs --level warn shows from where"},
	} {
		last := of.refusals.Last
		if last == nil || now.Sub(last.Time) > attention {
			continue
		}
		who := last.From
		if last.Client != "" {
			who += ", client " + last.Client
		}
		diags = append(diags, protocol.Diagnostic{
			Level: protocol.LevelWarn,
			Code:  of.code,
			Hint:  of.hint,
			Message: fmt.Sprintf("%s: %d so far, the last at %s from %s: %s", of.what, of.refusals.Count,
				last.Time.Local().Format(time.TimeOnly), who, last.Reason),
		})
	}
	return diags
}

// Certificate returns an error for an expired certificate, a warning if it expires soon, else nil.
func Certificate(ends, now time.Time) *protocol.Diagnostic {
	d := &protocol.Diagnostic{
		Level: protocol.LevelError,
		Code:  CodeCertificateEnded,
		Hint:  "replace the files of server.tls, then exthost reload",
		Message: "server.tls: the certificate ended on " + ends.Local().Format(time.DateTime) +
			": clients that verify it cannot connect",
	}
	switch left := ends.Sub(now); {
	case left > CertificateWarning:
		return nil
	case left > 0:
		d.Level, d.Code = protocol.LevelWarn, CodeCertificateEnds
		d.Message = fmt.Sprintf("server.tls: the certificate ends on %s, in %d days",
			ends.Local().Format(time.DateTime), int(left.Hours()/24))
	}
	return d
}
