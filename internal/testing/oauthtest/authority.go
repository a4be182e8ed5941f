package oauthtest

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
)

// authority is the authorization server.
func (s *Servers) authority(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked[r.URL.Path]++
	s.mu.Unlock()
	if s.Any != nil && s.Any(w, r) {
		return
	}
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		m := map[string]any{
			"issuer":                                         s.Issuer,
			"authorization_endpoint":                         s.Issuer + "/authorize",
			"token_endpoint":                                 s.Issuer + "/token",
			"registration_endpoint":                          s.Issuer + "/register",
			"revocation_endpoint":                            s.Issuer + "/revoke",
			"device_authorization_endpoint":                  s.Issuer + "/device",
			"response_types_supported":                       []string{"code"},
			"code_challenge_methods_supported":               []string{"S256"},
			"token_endpoint_auth_methods_supported":          []string{"none"},
			"authorization_response_iss_parameter_supported": true,
		}
		if s.Secret {
			m["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"}
		}
		if s.Metadata != nil {
			s.Metadata(m)
		}
		write(w, http.StatusOK, m)
	case "/register":
		s.register(w, r)
	case "/authorize":
		s.authorize(w, r)
	case "/token":
		if s.Token == nil || !s.Token(w, r) {
			s.token(w, r)
		}
	case "/revoke":
		s.revoke(r.FormValue("token"))
	case "/device":
		code := rand.Text()
		s.mu.Lock()
		s.devices[code] = false
		s.mu.Unlock()
		write(w, http.StatusOK,
			map[string]any{
				"device_code":      code,
				"user_code":        "ABCD-EFGH",
				"verification_uri": s.Issuer + "/enter",
				"expires_in":       600,
				"interval":         1,
			})
	default:
		http.NotFound(w, r)
	}
}

func (s *Servers) register(w http.ResponseWriter, r *http.Request) {
	var m map[string]any
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		fail(w, "invalid_client_metadata", err.Error())
		return
	}
	m["client_id"] = rand.Text()
	s.mu.Lock()
	if s.Secret {
		m["client_secret"] = "client-secret-" + rand.Text()
		m["client_secret_expires_at"] = 0 // never
		s.secrets = append(s.secrets, m["client_secret"].(string))
	}
	s.clients[m["client_id"].(string)] = true
	s.mu.Unlock()
	write(w, http.StatusCreated, m)
}

// authorize approves at once, and sends the browser back.
func (s *Servers) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	code := rand.Text()
	s.mu.Lock()
	known := s.clients[q.Get("client_id")]
	s.codes[code] = q
	s.secrets = append(s.secrets, code)
	s.mu.Unlock()
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {s.Issuer}}
	if !known || q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" {
		back = url.Values{"error": {"invalid_request"}, "state": {q.Get("state")}, "iss": {s.Issuer}}
	}
	if s.Callback != nil {
		s.Callback(back)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func fail(w http.ResponseWriter, code, description string) {
	write(w, http.StatusBadRequest, map[string]any{"error": code, "error_description": description})
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
