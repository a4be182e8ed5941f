package accesstoken

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
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
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

	"github.com/go-jose/go-jose/v4"
)

var (
	now             = time.Unix(1_800_000_000, 0)
	rsaKey2, _      = rsa.GenerateKey(rand.Reader, 2048)
	evilKey, _      = rsa.GenerateKey(rand.Reader, 2048) // not published by the issuer
	ecKey2, _       = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	edPub, edKey, _ = ed25519.GenerateKey(rand.Reader)
)

func b64(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// sign builds a token by hand, because libraries refuse to build most invalid ones.
func sign(head, body string) string { return signWith(rsaKey2, rsaKey2.N.Bytes(), head, body) }

func signWith(rsaKey *rsa.PrivateKey, secret []byte, head, body string) string {
	signed := b64([]byte(head)) + "." + b64([]byte(body))
	var h struct{ Alg string }
	_ = json.Unmarshal([]byte(head), &h)
	sum := sha256.Sum256([]byte(signed))
	var sig []byte
	switch h.Alg {
	case "RS256":
		sig, _ = rsa.SignPKCS1v15(rand.Reader, rsaKey, crypto.SHA256, sum[:])
	case "PS256":
		sig, _ = rsa.SignPSS(rand.Reader, rsaKey, crypto.SHA256, sum[:],
			&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
	case "ES256", "ES384":
		r, s, _ := ecdsa.Sign(rand.Reader, ecKey2, sum[:])
		sig = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case "EdDSA":
		sig = ed25519.Sign(edKey, []byte(signed))
	case "HS256":
		m := hmac.New(sha256.New, secret)
		m.Write([]byte(signed))
		sig = m.Sum(nil)
	}
	return signed + "." + b64(sig)
}

func rsaJWK(k *rsa.PublicKey, more string) string {
	return fmt.Sprintf(`{"kty":"RSA","n":%q,"e":%q%s}`, b64(k.N.Bytes()), b64(big.NewInt(int64(k.E)).Bytes()), more)
}

func keySet() string {
	point, _ := ecKey2.PublicKey.Bytes()
	return fmt.Sprintf(`{"keys":[{"kty":"oct","k":"AAAA"},{"kty":"RSA","use":"enc","kid":"enc","n":"x","e":"AQAB"},%s,
		{"kty":"EC","kid":"e","crv":"P-256","x":%q,"y":%q},{"kty":"OKP","kid":"o","alg":"EdDSA","crv":"Ed25519","x":%q}]}`,
		rsaJWK(&rsaKey2.PublicKey, `,"kid":"r"`), b64(point[1:33]), b64(point[33:]), b64(edPub))
}

// issuer serves metadata and keys, and counts requests for keys.
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

// publishing returns a Verifier whose issuer publishes the result of set.
func publishing(t *testing.T, set func() string) *Verifier {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, set()) }))
	t.Cleanup(s.Close)
	return &Verifier{Issuer: "i", Audience: "a", KeysURL: s.URL}
}

func good(v *Verifier) string {
	return fmt.Sprintf(`{"iss":%q,"aud":["other",%q],"sub":"ada","scope":"read write","exp":%d,"nbf":%d}`, v.Issuer,
		v.Audience, now.Unix()+60, now.Unix())
}

// changed returns valid claims with changes; nil removes a claim.
func changed(v *Verifier, change map[string]any) string {
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

func TestVerify(t *testing.T) {
	v, asked := issuer(t)
	for _, head := range []string{
		rs,
		`{"alg":"PS256"}`,
		`{"alg":"ES256","kid":"e","typ":"at+jwt"}`,
		`{"alg":"EdDSA","kid":"o"}`,
	} {
		c, err := v.Verify(t.Context(), sign(head, good(v)), now)
		if err != nil || c.Subject != "ada" || !slices.Equal(c.Scopes, []string{"read", "write"}) ||
			c.Expires.Unix() != now.Unix()+60 {
			t.Errorf("%s: %+v, %v", head, c, err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

func TestVerifyAccepts(t *testing.T) {
	v, _ := issuer(t)
	for name, change := range map[string]map[string]any{
		"one audience":            {"aud": v.Audience},
		"expired within the skew": {"exp": now.Unix() - 59},
		"valid within the skew":   {"nbf": now.Unix() + 59},
		"a fraction of a second":  {"exp": float64(now.Unix()) + 0.5},
		"issued in the future":    {"iat": now.Unix() + 3600},
		"claims of other types": {
			"jti": 5,
			"iat": "today",
			"scp": json.RawMessage("null"),
			"nbf": json.RawMessage("null"),
		},
		"a claim named SUB": {"SUB": "eve", "Iss": "https://evil.example"},
	} {
		if c, err := v.Verify(t.Context(), sign(rs, changed(v, change)), now); err != nil || c.Subject != "ada" {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	for scp, want := range map[any][]string{"tools": {"tools"}, any([2]string{"a", "b c"}): {"a", "b c"}} {
		c, err := v.Verify(t.Context(), sign(rs, changed(v, map[string]any{"scope": nil, "scp": scp})), now)
		if err != nil || !slices.Equal(c.Scopes, want) {
			t.Errorf("scp %v: %+v, %v", scp, c, err)
		}
	}
}

func TestVerifyRefuses(t *testing.T) {
	v, asked := issuer(t)
	claims := func(change map[string]any) string { return changed(v, change) }
	fine := sign(rs, good(v))
	parts := strings.Split(fine, ".")
	public := pem.EncodeToMemory(&pem.Block{
		Type:  "RSA PUBLIC KEY",
		Bytes: x509.MarshalPKCS1PublicKey(&rsaKey2.PublicKey),
	})
	for name, token := range map[string]string{
		"nothing":    "",
		"dots":       "..",
		"many dots":  strings.Repeat(".", maxToken),
		"one part":   "a",
		"two parts":  parts[0] + "." + parts[1],
		"four parts": fine + ".a",
		"encrypted":  b64([]byte(`{"alg":"dir","enc":"A128GCM"}`)) + "..AAAA.AAAA.AAAA",
		"JSON": fmt.Sprintf(`{"protected":%q,"payload":%q,"signature":%q}`, parts[0], parts[1],
			parts[2]),
		"not base64":            "!." + parts[1] + "." + parts[2],
		"another spelling":      parts[0] + "." + parts[1] + "." + respell(parts[2]),
		"no algorithm":          sign(`{}`, good(v)),
		"two algorithms":        sign(`{"alg":"none","alg":"RS256","kid":"r"}`, good(v)),
		"algorithm is no text":  sign(`{"alg":["RS256"],"kid":"r"}`, good(v)),
		"none":                  sign(`{"alg":"none"}`, good(v)),
		"None":                  sign(`{"alg":"None","kid":"r"}`, good(v)),
		"none, well signed":     parts[0] + "." + parts[1] + ".",
		"HMAC by the modulus":   sign(`{"alg":"HS256","kid":"r"}`, good(v)),
		"HMAC by the PEM":       signWith(nil, public, `{"alg":"HS256","kid":"r"}`, good(v)),
		"HMAC by the published": signWith(nil, []byte{0, 0, 0}, `{"alg":"HS256"}`, good(v)),
		"another curve":         sign(`{"alg":"ES384","kid":"e"}`, good(v)),
		"another key type":      sign(`{"alg":"ES256","kid":"r"}`, good(v)),
		"another key's name":    sign(`{"alg":"RS256","kid":"e"}`, good(v)),
		"an unknown key":        sign(`{"alg":"RS256","kid":"x"}`, good(v)),
		"kid is no text":        sign(`{"alg":"RS256","kid":{"r":1}}`, good(v)),
		"crit":                  sign(`{"alg":"RS256","kid":"r","crit":["exp"],"exp":1}`, good(v)),
		"crit of the library":   sign(`{"alg":"RS256","kid":"r","crit":["b64"],"b64":true}`, good(v)),
		"crit of nothing":       sign(`{"alg":"RS256","kid":"r","crit":[]}`, good(v)),
		"other claims":          parts[0] + "." + b64([]byte(claims(map[string]any{"sub": "eve"}))) + "." + parts[2],
		"no signature":          parts[0] + "." + parts[1] + ".",
		"half a signature":      parts[0] + "." + parts[1] + "." + parts[2][:40],
		"another issuer":        sign(rs, claims(map[string]any{"iss": "https://evil.example"})),
		"no issuer":             sign(rs, claims(map[string]any{"iss": nil})),
		"another audience":      sign(rs, claims(map[string]any{"aud": "https://other.example"})),
		"no audience":           sign(rs, claims(map[string]any{"aud": nil})),
		"an empty audience":     sign(rs, claims(map[string]any{"aud": []string{}})),
		"expired":               sign(rs, claims(map[string]any{"exp": now.Unix() - 61})),
		"expired in the past":   sign(rs, claims(map[string]any{"exp": -1})),
		"never expires":         sign(rs, claims(map[string]any{"exp": nil})),
		"expires at null":       sign(rs, claims(map[string]any{"exp": json.RawMessage("null")})),
		"expires at text":       sign(rs, claims(map[string]any{"exp": "tomorrow"})),
		"not yet":               sign(rs, claims(map[string]any{"nbf": now.Unix() + 61})),
		"never valid":           sign(rs, claims(map[string]any{"nbf": 9e18})),
		"not JSON":              sign(rs, "claims"),
		"two subjects":          sign(rs, strings.Replace(good(v), "{", `{"sub":"eve",`, 1)),
		"too long":              sign(rs, claims(map[string]any{"x": strings.Repeat("x", maxToken)})),
	} {
		c, err := v.Verify(t.Context(), token, now)
		if err == nil || errors.Is(err, ErrKeys) {
			t.Errorf("%s: %+v, %v", name, c, err)
			continue
		}
		for _, part := range strings.Split(token, ".") {
			if len(part) > 8 && strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error shows the token: %v", name, err)
			}
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("names of unknown keys had the keys fetched %d times", n)
	}
}

// respell changes the unused bits of the last base64 character.
func respell(part string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := len(part) - 1
	return part[:last] + string(alphabet[strings.IndexByte(alphabet, part[last])+1])
}

// TestKeysOfTheTokenCountForNothing signs a token with a key that is embedded in the token: it is refused.
func TestKeysOfTheTokenCountForNothing(t *testing.T) {
	v, _ := issuer(t)
	evil := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the token had %s fetched", r.URL)
	}))
	defer evil.Close()
	jwk := rsaJWK(&evilKey.PublicKey, `,"kid":"r"`)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &evilKey.PublicKey, evilKey)
	if err != nil {
		t.Fatal(err)
	}
	private, err := jose.JSONWebKey{Key: evilKey, KeyID: "r"}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{
		`"jwk":` + jwk,
		`"jwk":` + string(private),
		`"jku":"` + evil.URL + `/keys"`,
		`"x5u":"` + evil.URL + `/cert"`,
		`"x5c":["` + base64.StdEncoding.EncodeToString(cert) + `"]`,
	} {
		for _, kid := range []string{"", `"kid":"r",`, `"kid":"evil",`} {
			head := `{"alg":"RS256",` + kid + member + `}`
			if c, err := v.Verify(t.Context(), signWith(evilKey, nil, head, good(v)), now); err == nil {
				t.Errorf("%s: %+v is believed", head, c)
			}
		}
	}
	if _, err := v.Verify(t.Context(), sign(`{"alg":"RS256","kid":"r","jwk":`+jwk+`,"jku":"`+evil.URL+`"}`, good(v)),
		now); err != nil {
		t.Errorf("signed by the issuer all the same: %v", err)
	}
}

// TestVerifierWithoutIssuerOrAudience: an empty field must not disable its check.
func TestVerifierWithoutIssuerOrAudience(t *testing.T) {
	for _, v := range []*Verifier{{Issuer: "i"}, {Audience: "a"}} {
		v.KeysURL = publishing(t, keySet).KeysURL
		if c, err := v.Verify(t.Context(), sign(rs, changed(v, map[string]any{"iss": "i", "aud": "a"})),
			now); err == nil {
			t.Errorf("%+v is believed", c)
		}
	}
}

func FuzzVerify(f *testing.F) {
	v := &Verifier{Issuer: "i", Audience: "a", KeysURL: "http://127.0.0.1:1/"}
	v.fetched, v.keys = now, []jose.JSONWebKey{{KeyID: "r", Key: &rsaKey2.PublicKey}}
	f.Add(sign(rs, `{"iss":"i","aud":"a","exp":1800000060}`))
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := v.Verify(context.Background(), token, now); err == nil &&
			!strings.HasPrefix(token, b64([]byte(rs))) {
			t.Errorf("%q is believed", token)
		}
	})
}
