package httpserver

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/exthost/exthost/config"
)

// forge makes a token like the issuer's, but with another algorithm and signature.
func (i *issuer) forge(alg string, sign func(signed []byte) []byte) http.Header {
	claims, _ := json.Marshal(map[string]any{
		"iss":   i.url,
		"sub":   "ada",
		"aud":   resource,
		"scope": "tools",
		"exp":   time.Now().Add(time.Hour).Unix(),
	})
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"`+alg+`","kid":"k"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(claims)
	return authorization("Bearer " + signed + "." + base64.RawURLEncoding.EncodeToString(sign([]byte(signed))))
}

// credentials returns all kinds of credentials that a request may have.
func credentials(i *issuer) map[string]http.Header {
	public := i.key.Public().(ed25519.PublicKey)
	stranger := newStranger()
	return map[string]http.Header{
		"nothing":          nil,
		"a wrong token":    authorization("Bearer wrong"),
		"another scheme":   authorization("Basic clients"),
		"two tokens":       {"Authorization": {"Bearer wrong", "Bearer operators-own"}},
		"clients":          authorization("Bearer clients"),
		"operator":         authorization("Bearer operators-own"),
		"access":           i.header("ada", resource, "tools", time.Hour),
		"no scope":         i.header("ada", resource, "other", time.Hour),
		"expired":          i.header("ada", resource, "tools", -time.Hour),
		"another audience": i.header("ada", "https://other.example", "tools", time.Hour),
		"named operator":   i.header("operator", resource, "tools", time.Hour),
		"alg none":         i.forge("none", func([]byte) []byte { return nil }),
		"signed by nobody": i.forge("EdDSA", func([]byte) []byte { return nil }),
		"HMAC of the key": i.forge("HS256",
			func(b []byte) []byte { h := hmac.New(sha256.New, public); h.Write(b); return h.Sum(nil) }),
		"signed by another": i.forge("EdDSA", func(b []byte) []byte { return ed25519.Sign(stranger, b) }),
	}
}

func newStranger() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) }

// TestWhoMayReachWhat checks each route with each credential on each kind of server. A request passes if it gets
// any answer of its route.
func TestWhoMayReachWhat(t *testing.T) {
	i := newIssuer(t)
	all := credentials(i)
	everybody := make(map[string]bool)
	for name := range all {
		everybody[name] = true
	}
	set := func(names ...string) map[string]bool {
		m := make(map[string]bool)
		for _, name := range names {
			m[name] = true
		}
		return m
	}
	oauth := &OAuth{Resource: resource, Issuer: i.url, Scopes: []string{"tools"}}
	far := func(l net.Listener) net.Listener { return abroad{l} }
	for name, tt := range map[string]struct {
		options Options
		wrap    func(net.Listener) net.Listener
		enter   map[string]bool
	}{
		"loopback":              {Options{}, nil, everybody},
		"loopback with a token": {Options{Token: "clients"}, nil, set("clients", "operator")},
		"loopback with OAuth":   {Options{OAuth: oauth}, nil, set("operator", "access")},
		"abroad with a token":   {Options{Token: "clients"}, far, set("clients", "operator")},
		"abroad with OAuth":     {Options{OAuth: oauth}, far, set("operator", "access")},
		"abroad with a token and OAuth": {Options{Token: "clients", OAuth: oauth}, far,
			set("clients", "operator", "access")},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFake()
			o := tt.options
			o.Backend, o.Serves, o.Metrics, o.OperatorToken = b, one, http.HandlerFunc(noMetrics), "operators-own"
			o.Admin = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
			addr := "http://" + serve(t, o, tt.wrap)
			for credential, header := range all {
				refusal := http.StatusUnauthorized
				if o.OAuth != nil && credential == "no scope" {
					refusal = http.StatusForbidden
				}
				for _, a := range []struct {
					routes  []string
					methods []string
					enter   bool
				}{
					{[]string{"/mcp", "/sse", "/message", "/message?sessionId=x", "/d/mcp", "/d/sse",
						"/d/message?sessionId=x", "/metrics", "/", "/nothing/here", "/x/mcp"},
						methods, tt.enter[credential]},
					{[]string{"/api/v1/status", "/api/v1/reload", "/api/v1/tools/x/call", "/api/v1/none", "/api/v1/"},
						methods, credential == "operator"},
					{[]string{"/healthz", "/readyz"}, methods, credential == "nothing" || tt.enter[credential]},
					{[]string{"/ui/", "/ui/app.js"}, []string{http.MethodGet},
						credential == "nothing" || tt.enter[credential]},
					{[]string{metadataPath, metadataPath + "/mcp"}, methods,
						o.OAuth != nil && credential == "nothing" || tt.enter[credential]},
				} {
					for _, route := range a.routes {
						for _, method := range a.methods {
							r := send(t, method, addr+route, header, initialize)
							r.Body.Close()
							if entered := r.StatusCode != http.StatusUnauthorized &&
								r.StatusCode != http.StatusForbidden; entered != a.enter ||
								!entered && r.StatusCode != refusal && r.StatusCode != http.StatusUnauthorized {
								t.Errorf("%s %s with %s: %s", method, route, credential, r.Status)
							}
							if r.StatusCode == http.StatusUnauthorized && r.Header.Get("WWW-Authenticate") == "" {
								t.Errorf("%s %s with %s: no word of what is wanted", method, route, credential)
							}
						}
					}
				}
			}
		})
	}
}

// A destination's port needs a token if the server has one.
func TestWhoMayReachADestinationsPort(t *testing.T) {
	i := newIssuer(t)
	for name, tt := range map[string]struct {
		options Options
		enter   []string
	}{
		"no token": {Options{}, slices.Collect(maps.Keys(credentials(i)))},
		"a token":  {Options{Token: "clients"}, []string{"operator", "clients"}},
		"OAuth": {Options{OAuth: &OAuth{Resource: resource, Issuer: i.url, Scopes: []string{"tools"}}},
			[]string{"operator", "access"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := tt.options
			o.OperatorToken = "operators-own"
			_, h := bridged(t, config.Destinations{"d": {Type: config.DestinationStdio}}, o)
			var at string
			eventually(t, func() bool { at = h.Status().Destinations[0].Listens; return at != "" })
			for credential, header := range credentials(i) {
				want := false
				for _, name := range tt.enter {
					want = want || name == credential
				}
				for _, route := range []string{
					"/mcp",
					"/message",
					"/",
					"/d/mcp",
					"/api/v1/status",
					"/ui/",
					"/metrics",
					"/healthz",
				} {
					if route == "/healthz" && credential == "nothing" {
						continue // needs no token
					}
					r := send(t, http.MethodDelete, at+route, header, "")
					if entered := r.StatusCode != http.StatusUnauthorized &&
						r.StatusCode != http.StatusForbidden; entered != want {
						t.Errorf("%s with %s: %s", route, credential, r.Status)
					}
				}
			}
		})
	}
}
