package status

import (
	"fmt"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Server is what the HTTP server in front of a host says of itself.
type Server struct {
	RejectedTokens   Refusals   `json:"rejected_tokens"`            // requests with a token that is wrong or has ended
	FailedHandshakes Refusals   `json:"failed_handshakes"`          // of TLS
	CertificateEnds  *time.Time `json:"certificate_ends,omitempty"` // of the certificate in use; nil without TLS
}

// Refusals counts what was refused since the server began.
type Refusals struct {
	Count int64    `json:"count"`
	Last  *Refusal `json:"last,omitempty"`
}

// Refusal is one of these.
type Refusal struct {
	Time   time.Time `json:"time"`
	From   string    `json:"from"`             // the address of the other end
	Client string    `json:"client,omitempty"` // the named client whose token it was
	Reason string    `json:"reason"`
}

// CertificateWarning is how long before the end of a certificate there is a warning.
const CertificateWarning = 21 * 24 * time.Hour

// attention is how long after a refusal the status has a warning about it.
const attention = 10 * time.Minute

// Codes of the diagnostics about a server.
const (
	CodeTokenRejected    = "token_rejected"
	CodeHandshakeFailed  = "tls_handshake_failed"
	CodeCertificateEnded = "certificate_ended"
	CodeCertificateEnds  = "certificate_ends"
)

// Diagnostics returns what an operator should look at now.
func (s *Server) Diagnostics(now time.Time) (diags []protocol.Diagnostic) {
	if s.CertificateEnds != nil {
		if d := Certificate(*s.CertificateEnds, now); d != nil {
			d.Level = protocol.LevelWarn // of a host that runs
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

// Certificate returns an error when a server's certificate has ended, a warning when its end is near, else nil.
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
