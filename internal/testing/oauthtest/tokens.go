package oauthtest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"time"
)

// token is the token endpoint.
func (s *Servers) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.FormValue("grant_type") {
	case "authorization_code":
		s.secrets = append(s.secrets, r.FormValue("code_verifier"))
		q := s.codes[r.FormValue("code")]
		delete(s.codes, r.FormValue("code"))
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if q == nil || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") ||
			q.Get("redirect_uri") != r.FormValue("redirect_uri") {
			fail(w, "invalid_grant", "the code is wrong")
			return
		}
		s.answer(w, &grant{scope: q.Get("scope"), resource: r.FormValue("resource")})
	case "refresh_token":
		token := r.FormValue("refresh_token")
		g := s.grants[token]
		current := g != nil && token == g.refresh[len(g.refresh)-1]
		previous := g != nil && len(g.refresh) > 1 && token == g.refresh[len(g.refresh)-2] && !g.used
		if g == nil || g.revoked || !current && !previous {
			if g != nil {
				g.revoked = true // an old token that is used again was stolen
			}
			s.refused++
			fail(w, "invalid_grant", "token "+token+" is not valid")
			return
		}
		if previous { // the client did not get the answer with the next token
			g.refresh = g.refresh[:len(g.refresh)-1]
		}
		s.refreshes++
		s.answer(w, g)
	case "urn:ietf:params:oauth:grant-type:device_code":
		asked, ok := s.devices[r.FormValue("device_code")]
		s.devices[r.FormValue("device_code")] = true
		switch {
		case !ok:
			fail(w, "invalid_grant", "")
		case !asked:
			fail(w, "authorization_pending", "")
		default:
			s.answer(w, &grant{resource: r.FormValue("resource")})
		}
	default:
		fail(w, "unsupported_grant_type", r.FormValue("grant_type"))
	}
}

// answer responds with the next tokens of a grant. The caller holds s.mu.
func (s *Servers) answer(w http.ResponseWriter, g *grant) {
	life := s.Life
	if life == 0 {
		life = time.Hour
	}
	delete(s.access, g.access)
	g.access, g.expires, g.used = "access-"+rand.Text(), time.Now().Add(life), false
	s.access[g.access] = g
	s.secrets = append(s.secrets, g.access)
	out := map[string]any{
		"access_token": g.access,
		"token_type":   "bearer",
		"expires_in":   int(life.Seconds()),
		"scope":        g.scope,
	}
	if !s.NoRefresh {
		if g.refresh == nil || !s.NoRotation {
			g.refresh = append(g.refresh, "refresh-"+rand.Text())
		}
		token := g.refresh[len(g.refresh)-1]
		s.grants[token], out["refresh_token"] = g, token
		s.secrets = append(s.secrets, token)
	}
	if s.Tokens != nil {
		s.Tokens(out)
	}
	write(w, http.StatusOK, out)
}

func (s *Servers) revoke(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.grants[token]; g != nil {
		g.revoked = true
	}
}
