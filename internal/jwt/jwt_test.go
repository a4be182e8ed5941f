package jwt

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var (
	now             = time.Unix(1_800_000_000, 0)
	rsaKey2, _      = rsa.GenerateKey(rand.Reader, 2048)
	ecKey2, _       = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	edPub, edKey, _ = ed25519.GenerateKey(rand.Reader)
)

func b64(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// sign makes a token of a header and claims.
func sign(head, body string) string {
	signed := b64([]byte(head)) + "." + b64([]byte(body))
	var h header
	_ = json.Unmarshal([]byte(head), &h)
	sum := sha256.Sum256([]byte(signed))
	var sig []byte
	switch h.Alg {
	case "RS256":
		sig, _ = rsa.SignPKCS1v15(rand.Reader, rsaKey2, crypto.SHA256, sum[:])
	case "PS256":
		sig, _ = rsa.SignPSS(rand.Reader, rsaKey2, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
	case "ES256":
		r, s, _ := ecdsa.Sign(rand.Reader, ecKey2, sum[:])
		sig = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case "EdDSA":
		sig = ed25519.Sign(edKey, []byte(signed))
	case "HS256": // by what everybody knows, the public key
		m := hmac.New(sha256.New, rsaKey2.N.Bytes())
		m.Write([]byte(signed))
		sig = m.Sum(nil)
	}
	return signed + "." + b64(sig)
}

func keySet() string {
	point, _ := ecKey2.PublicKey.Bytes()
	return fmt.Sprintf(`{"keys":[{"kty":"oct","k":"AAAA"},{"kty":"RSA","use":"enc","kid":"enc","n":"x","e":"AQAB"},
		{"kty":"RSA","kid":"r","n":%q,"e":%q},{"kty":"EC","kid":"e","crv":"P-256","x":%q,"y":%q},{"kty":"OKP","kid":"o","alg":"EdDSA","crv":"Ed25519","x":%q}]}`,
		b64(rsaKey2.N.Bytes()), b64(big.NewInt(int64(rsaKey2.E)).Bytes()), b64(point[1:33]), b64(point[33:]), b64(edPub))
}

// issuer serves metadata and keys, and counts how often it is asked for those.
func issuer(t *testing.T) (v *Verifier, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	mux.HandleFunc("/.well-known/openid-configuration/tenant", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":"%s/tenant","jwks_uri":"%s/keys"}`, s.URL, s.URL)
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, keySet())
	})
	return &Verifier{Issuer: s.URL + "/tenant", Audience: "https://host.example/mcp"}, asked
}

func good(v *Verifier) string {
	return fmt.Sprintf(`{"iss":%q,"aud":["other",%q],"sub":"ada","scope":"read write","exp":%d,"nbf":%d}`, v.Issuer, v.Audience, now.Unix()+60, now.Unix())
}

func TestVerify(t *testing.T) {
	v, asked := issuer(t)
	for _, head := range []string{`{"alg":"RS256","kid":"r"}`, `{"alg":"PS256"}`, `{"alg":"ES256","kid":"e","typ":"at+jwt"}`, `{"alg":"EdDSA","kid":"o"}`} {
		c, err := v.Verify(t.Context(), sign(head, good(v)), now)
		if err != nil || c.Subject != "ada" || !slices.Equal(c.Scopes, []string{"read", "write"}) || c.Expires.Unix() != now.Unix()+60 {
			t.Errorf("%s: %+v, %v", head, c, err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

func TestVerifyRefuses(t *testing.T) {
	v, asked := issuer(t)
	claims := func(change map[string]any) string {
		var all map[string]any
		_ = json.Unmarshal([]byte(good(v)), &all)
		for key, value := range change {
			if all[key] = value; value == nil {
				delete(all, key)
			}
		}
		out, _ := json.Marshal(all)
		return string(out)
	}
	const rs = `{"alg":"RS256","kid":"r"}`
	fine := sign(rs, good(v))
	parts := strings.Split(fine, ".")
	for name, token := range map[string]string{
		"nothing":            "",
		"one part":           "a",
		"two parts":          parts[0] + "." + parts[1],
		"four parts":         fine + ".a",
		"not base64":         "!." + parts[1] + "." + parts[2],
		"no algorithm":       sign(`{}`, good(v)),
		"none":               sign(`{"alg":"none"}`, good(v)),
		"None":               sign(`{"alg":"None","kid":"r"}`, good(v)),
		"HMAC by the public": sign(`{"alg":"HS256","kid":"r"}`, good(v)),
		"another key's name": sign(`{"alg":"RS256","kid":"e"}`, good(v)),
		"an unknown key":     sign(`{"alg":"RS256","kid":"x"}`, good(v)),
		"crit":               sign(`{"alg":"RS256","kid":"r","crit":["b64"]}`, good(v)),
		"other claims":       parts[0] + "." + b64([]byte(claims(map[string]any{"sub": "eve"}))) + "." + parts[2],
		"no signature":       parts[0] + "." + parts[1] + ".",
		"half a signature":   parts[0] + "." + parts[1] + "." + parts[2][:40],
		"another issuer":     sign(rs, claims(map[string]any{"iss": "https://evil.example"})),
		"no issuer":          sign(rs, claims(map[string]any{"iss": nil})),
		"another audience":   sign(rs, claims(map[string]any{"aud": "https://other.example"})),
		"no audience":        sign(rs, claims(map[string]any{"aud": nil})),
		"expired":            sign(rs, claims(map[string]any{"exp": now.Unix() - 61})),
		"never expires":      sign(rs, claims(map[string]any{"exp": nil})),
		"expires at text":    sign(rs, claims(map[string]any{"exp": "tomorrow"})),
		"not yet":            sign(rs, claims(map[string]any{"nbf": now.Unix() + 61})),
		"not JSON":           sign(rs, "claims"),
		"too long":           sign(rs, claims(map[string]any{"x": strings.Repeat("x", maxToken)})),
	} {
		if c, err := v.Verify(t.Context(), token, now); err == nil || errors.Is(err, ErrKeys) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("names of unknown keys had the keys fetched %d times", n)
	}
}

// New keys are found when a token names one, however many name none.
func TestKeysAreFetchedAgain(t *testing.T) {
	v, asked := issuer(t)
	unknown := sign(`{"alg":"RS256","kid":"new"}`, good(v))
	for _, later := range []time.Duration{0, keysAgain / 2, keysAgain + 1, keysAgain + 2} {
		_, _ = v.Verify(t.Context(), unknown, now.Add(later))
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the keys were fetched %d times, want at first and after %v", n, keysAgain)
	}
}

// Whoever names an unknown key, and leaves, neither delays the others nor has the keys
// fetched more often.
func TestAFetchIsNobodyElsesBusiness(t *testing.T) {
	var asked atomic.Int64
	reached, release := make(chan struct{}, 8), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > 1 {
			reached <- struct{}{}
			<-release
		}
		fmt.Fprint(w, keySet())
	}))
	defer s.Close()
	v := &Verifier{Issuer: "i", Audience: "a", KeysURL: s.URL}
	known, unknown := sign(`{"alg":"RS256","kid":"r"}`, good(v)), sign(`{"alg":"RS256","kid":"new"}`, good(v))
	if _, err := v.Verify(t.Context(), known, now); err != nil {
		t.Fatal(err)
	}
	later := now.Add(keysAgain + 1)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = v.Verify(ctx, unknown, later)
	}()
	<-reached
	believed := make(chan error, 1)
	go func() {
		_, err := v.Verify(t.Context(), known, later)
		believed <- err
	}()
	select {
	case err := <-believed:
		if err != nil {
			t.Errorf("during the fetch: %v", err)
		}
	case <-time.After(fetchLimit / 2):
		t.Error("a token with a known key waits for the fetch")
	}
	leave()
	close(release)
	<-left
	_, _ = v.Verify(t.Context(), unknown, later.Add(1))
	if n := asked.Load(); n != 2 {
		t.Errorf("the keys were fetched %d times, want at first and after %v", n, keysAgain)
	}
}

func TestKeysThatCannotBeHad(t *testing.T) {
	v, _ := issuer(t)
	v.Issuer += "/elsewhere"
	if _, err := v.Verify(t.Context(), sign(`{"alg":"RS256"}`, good(v)), now); !errors.Is(err, ErrKeys) {
		t.Errorf("no metadata: %v", err)
	}
	v, _ = issuer(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Verify(ctx, sign(`{"alg":"RS256"}`, good(v)), now); !errors.Is(err, ErrKeys) {
		t.Errorf("a caller that has left: %v", err)
	}
	if _, err := v.Verify(t.Context(), sign(`{"alg":"RS256"}`, good(v)), now); err != nil {
		t.Errorf("the next caller pays for that: %v", err)
	}
}

func FuzzVerify(f *testing.F) {
	v := &Verifier{Issuer: "i", Audience: "a", KeysURL: "http://127.0.0.1:1/"}
	v.fetched, v.keys = now, []key{{id: "r", public: &rsaKey2.PublicKey}}
	f.Add(sign(`{"alg":"RS256","kid":"r"}`, `{"iss":"i","aud":"a","exp":1800000060}`))
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := v.Verify(context.Background(), token, now); err == nil && !strings.HasPrefix(token, b64([]byte(`{"alg":"RS256","kid":"r"}`))) {
			t.Errorf("%q is believed", token)
		}
	})
}
