package unit

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/text/redact"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// ownSecrets are the secret values that a unit was given.
type ownSecrets struct {
	values []string // from the environment, the headers, the URL and the options
	always bool     // more may follow

	mu     sync.Mutex // guards tokens
	tokens []string   // from transport.token_file and the store of secrets, latest last
}

// keptTokens bounds the masked tokens of a unit: the current ones and earlier ones, which a process or a server
// may still quote.
const keptTokens = 256

// addToken adds a value, and reports whether it is new.
func (s *ownSecrets) addToken(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := slices.Index(s.tokens, token)
	if known >= 0 {
		s.tokens = slices.Delete(s.tokens, known, known+1)
	} else if len(s.tokens) == keptTokens {
		s.tokens = slices.Delete(s.tokens, 0, 1)
	}
	s.tokens = append(s.tokens, token)
	return known < 0
}

// Learn adds a secret of u, which is masked from now on.
func (u *Unit) Learn(value string) {
	if u.secrets.addToken(value) {
		u.Env.SecretsChanged()
	}
}

// tellSecrets logs the names of the secrets that a process gets. It is not inlined, because the calling goroutine
// lives as long as the process, and the stack of that goroutine would hold room for the log record.
//
//go:noinline
func (i *Instance) tellSecrets() {
	if names := i.Unit.report.PassedSecrets; len(names) > 0 {
		i.Unit.Log.Info("it is given secrets", "names", names)
	}
}

// Secrets implements [Runner].
func (u *Unit) Secrets() []string {
	u.secrets.mu.Lock()
	defer u.secrets.mu.Unlock()
	return slices.Concat(u.secrets.values, u.secrets.tokens)
}

// Mask returns err without the secrets of the unit: an error quotes stderr and stdout of the process, and reaches the
// log, the status and callers. An error with evidence was made by the host: in it, secrets recognized by their form
// are masked too. In the extension's own errors they are not, because policies judge these errors, as they judge
// results.
func (u *Unit) Mask(err error) error {
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok || e.Evidence == nil && len(u.secrets.values) == 0 && !u.secrets.always {
		return err
	}
	r, masked := u.Env.Redactor, *e
	masked.Data = maskData(r, e.Data)
	if e.Evidence == nil {
		masked.Message = r.Known(e.Message)
		return &masked
	}
	evidence := *e.Evidence
	evidence.Stderr, evidence.Line = r.Strings(evidence.Stderr), r.String(evidence.Line)
	masked.Message, masked.Evidence = r.String(e.Message), &evidence
	return &masked
}

// maskData returns JSON without known secrets. If a number is a secret, all of data is masked.
func maskData(r *redact.Redactor, data json.RawMessage) json.RawMessage {
	if len(data) == 0 {
		return nil
	}
	masked := json.RawMessage(r.Known(string(data)))
	if !json.Valid(masked) {
		return json.RawMessage(`"***"`)
	}
	return masked
}

// transportSecrets returns the values of headers, and of parameters of the URL, that look like secrets by their names,
// and the password of the URL.
func transportSecrets(t manifest.Transport) (values []string) {
	add := func(name, value string) {
		values = append(values, process.Secrets([]string{strings.ReplaceAll(name, "-", "_") + "=" + value})...)
	}
	for name, value := range t.Headers {
		add(name, value)
		switch strings.ToLower(name) {
		case "authorization", "proxy-authorization":
			if _, credentials, ok := strings.Cut(value, " "); ok { // servers quote them without the scheme
				add(name, credentials)
			}
		case "cookie":
			cookies, _ := http.ParseCookie(value)
			for _, c := range cookies {
				add(name, c.Value)
			}
		}
	}
	if u, err := url.Parse(t.URL); err == nil {
		if password, ok := u.User.Password(); ok {
			values = append(values, password)
		}
		for name, list := range u.Query() {
			for _, value := range list {
				add(name, value)
				add(name, url.QueryEscape(value)) // as errors quote the URL
			}
		}
	}
	return values
}
