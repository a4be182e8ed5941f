package httpserver

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// CheckTLS returns an error if the files keep a server from starting, a warning if the certificate expires soon, else
// nil.
func CheckTLS(files TLS) *protocol.Diagnostic {
	return (&certificate{files: files}).check()
}

// Report returns what the server has refused and when its certificate expires, for [exthost.Admin.ServedBy].
func (s *Server) Report() status.Server {
	return status.Server{
		RejectedTokens:   s.badTokens.counts(),
		FailedHandshakes: s.handshakes.counts(),
		CertificateEnds:  s.certificate.ends(),
	}
}

// certificatePause is the time between two checks of the certificate's expiry.
const certificatePause = 6 * time.Hour

// watchCertificate logs that the certificate expires soon or has expired, until ctx ends.
func (s *Server) watchCertificate(ctx context.Context) {
	for {
		wait := certificatePause
		if ends := s.certificate.ends(); ends != nil {
			now := time.Now()
			if d := status.Certificate(*ends, now); d != nil && d.Level == protocol.LevelError {
				s.options.Logger.Error(d.Message, "next", d.Hint)
			} else if d != nil {
				s.options.Logger.Warn(d.Message, "next", d.Hint)
			}
			if left := ends.Sub(now); left > 0 {
				wait = min(wait, left+time.Second)
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// refuseToken counts a request with a rejected token.
func (s *Server) refuseToken(r *http.Request, client, reason string) {
	s.badTokens.add(status.Refusal{From: addressOf(r.RemoteAddr), Client: client, Reason: reason})
}

func addressOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// errorLog receives the log of [http.Server]: it counts failed TLS handshakes, logs that no connection can be accepted,
// and passes on all other lines at level debug.
type errorLog struct {
	handshakes *refusalLog
	log        *slog.Logger
	full       *rate.Limiter // for lines about connections that cannot be accepted
	other      io.Writer
}

// Write implements [io.Writer].
func (l *errorLog) Write(line []byte) (int, error) {
	if bytes.HasPrefix(line, []byte("http: Accept error: ")) && l.full.Allow() {
		reason, _, _ := strings.Cut(strings.TrimPrefix(string(line), "http: Accept error: "), "; retrying")
		l.log.Error("no connection can be accepted", "error", reason, "next", "exthost check")
		return len(line), nil
	}
	rest, ok := bytes.CutPrefix(line, []byte("http: TLS handshake error from "))
	from, reason, found := strings.Cut(strings.TrimSpace(string(rest)), ": ")
	if !ok || !found || reason == io.EOF.Error() { // a port check sends nothing
		return l.other.Write(line)
	}
	l.handshakes.add(status.Refusal{From: addressOf(from), Reason: reason})
	return len(line), nil
}

// newErrorLog returns the writer for the errors of an [http.Server].
func (s *Server) newErrorLog() io.Writer {
	return &errorLog{
		handshakes: s.handshakes,
		log:        s.options.Logger,
		full:       rate.NewLimiter(rate.Every(fullSpacing), 1),
		other:      slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug).Writer(),
	}
}
