package signin_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/secret/signin"
	"github.com/exthost/exthost/internal/testing/oauthtest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// TestOpenHandshake: some servers require a login only after the handshake, or only for some tools.
func TestOpenHandshake(t *testing.T) {
	for name, tt := range map[string]struct {
		open    []string // answered without a login
		refused int      // status for modern requests; 0: a legacy server
		none    bool     // no metadata
		err     error
	}{
		"legacy":               {open: []string{`"initialize"`}},
		"modern":               {open: []string{`"initialize"`}, refused: 400},
		"for some tools":       {open: []string{`"initialize"`, `"tools/list"`}},
		"without a login":      {open: []string{`"initialize"`, `"tools/list"`}, none: true, err: signin.ErrNone},
		"modern, but for some": {open: []string{`"initialize"`, `"tools/list"`}, refused: 404},
	} {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			s := oauthtest.New(t)
			s.Server = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodGet {
					if tt.none {
						http.NotFound(w, r)
					}
					return tt.none
				}
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if r.Header.Get("Authorization") != "" ||
					!slices.ContainsFunc(tt.open,
						func(method string) bool { return bytes.Contains(body, []byte(method)) }) {
					return false
				}
				if tt.refused != 0 && bytes.Contains(body, []byte(`"initialize"`)) {
					w.WriteHeader(tt.refused)
				}
				_, _ = io.WriteString(w, "{}")
				return true
			}
			if _, err := signIn(t, s); !errors.Is(err, tt.err) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestTokenForTooLittle: the error for missing scopes quotes the command that requests them.
func TestTokenForTooLittle(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	s.Server = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="repo read:org $(id)"`)
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	if _, err := signIn(t, s); err == nil ||
		!strings.HasSuffix(err.Error(), "(403 Forbidden); exthost secret login x --scope repo,read:org") {
		t.Error(err)
	}
}
