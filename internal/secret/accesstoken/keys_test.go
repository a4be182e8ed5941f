package accesstoken

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// TestKeysAreFetchedAgain finds new keys when a token names one, even while many tokens name unknown keys.
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

// TestKeysAreReplaced: a key is valid from the fetch that finds it until the fetch that does not.
func TestKeysAreReplaced(t *testing.T) {
	first, second := keySet(), fmt.Sprintf(`{"keys":[%s]}`, rsaJWK(&evilKey.PublicKey, `,"kid":"next"`))
	set := first
	v := publishing(t, func() string { return set })
	claims := changed(v, map[string]any{"exp": now.Add(3 * keysFor).Unix()})
	old, next := sign(rs, claims), signWith(evilKey, nil, `{"alg":"RS256","kid":"next"}`, claims)
	for _, step := range []struct {
		set   string
		later time.Duration
		token string
		valid bool
	}{
		{first, 0, old, true},
		{second, keysAgain, next, false},              // too early to fetch
		{second, keysAgain, old, true},                // still known
		{second, keysAgain + 1, next, true},           // fetched
		{second, keysAgain + 2, old, false},           // gone
		{first, keysFor, next, true},                  // still known
		{first, keysFor + keysAgain + 2, next, false}, // fetched because of their age
		{first, keysFor + keysAgain + 2, old, true},
	} {
		set = step.set
		if _, err := v.Verify(t.Context(), step.token, now.Add(step.later)); (err == nil) != step.valid {
			t.Errorf("after %v: %v, want it valid: %v", step.later, err, step.valid)
		}
	}
}

// TestKeysOfOneName: with two keys of one id, either may have signed.
func TestKeysOfOneName(t *testing.T) {
	for _, order := range [][]*rsa.PrivateKey{{rsaKey2, evilKey}, {evilKey, rsaKey2}} {
		v := publishing(t, func() string {
			return fmt.Sprintf(`{"keys":[%s,%s]}`, rsaJWK(&order[0].PublicKey, `,"kid":"r"`),
				rsaJWK(&order[1].PublicKey, `,"kid":"r"`))
		})
		for _, k := range order {
			if _, err := v.Verify(t.Context(), signWith(k, nil, rs, good(v)), now); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestKeysThatCannotBeUsed(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	private, err := jose.JSONWebKey{Key: rsaKey2, KeyID: "r"}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		jwk string
		key *rsa.PrivateKey
	}{
		"for encryption":      {rsaJWK(&rsaKey2.PublicKey, `,"kid":"r","use":"enc"`), rsaKey2},
		"too short":           {rsaJWK(&weak.PublicKey, `,"kid":"r"`), weak},
		"private":             {string(private), rsaKey2},
		"of another type":     {strings.Replace(rsaJWK(&rsaKey2.PublicKey, `,"kid":"r"`), "RSA", "EC", 1), rsaKey2},
		"without an exponent": {fmt.Sprintf(`{"kty":"RSA","kid":"r","n":%q}`, b64(rsaKey2.N.Bytes())), rsaKey2},
		"no object":           {`"r"`, rsaKey2},
	} {
		v := publishing(t, func() string { return `{"keys":[` + tt.jwk + `]}` })
		if _, err := v.Verify(t.Context(), signWith(tt.key, nil, rs, good(v)), now); !errors.Is(err, ErrKeys) {
			t.Errorf("a key %s: %v", name, err)
		}
	}
	v := publishing(t, func() string {
		return `{"keys":[` + rsaJWK(&rsaKey2.PublicKey, `,"kid":"r","alg":"PS256"`) + `]}`
	})
	if _, err := v.Verify(t.Context(), sign(rs, good(v)), now); err == nil {
		t.Error("a key for another algorithm is used")
	}
}

// TestAFetchIsNobodyElsesBusiness: a caller with an unknown key id who leaves neither delays others nor causes
// more fetches.
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
	known, unknown := sign(rs, good(v)), sign(`{"alg":"RS256","kid":"new"}`, good(v))
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
	v = publishing(t, func() string { return keySet() + strings.Repeat(" ", maxDocument) })
	if _, err := v.Verify(t.Context(), sign(rs, good(v)), now); !errors.Is(err, ErrKeys) ||
		!strings.Contains(err.Error(), "longer") {
		t.Errorf("a huge set: %v", err)
	}
	v = publishing(t, func() string { return `{"keys":[` + rsaJWK(&rsaKey2.PublicKey, `,"kid":"r"`) })
	if _, err := v.Verify(t.Context(), sign(rs, good(v)), now); !errors.Is(err, ErrKeys) {
		t.Errorf("half a set: %v", err)
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

// TestMetadataOfAnotherIssuer: metadata that names another issuer is refused.
func TestMetadataOfAnotherIssuer(t *testing.T) {
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			t.Error("its keys were fetched")
		}
		fmt.Fprintf(w, `{"issuer":"https://other.example","jwks_uri":"%s/keys"}`, s.URL)
	}))
	defer s.Close()
	v := &Verifier{Issuer: s.URL, Audience: "a"}
	if _, err := v.Verify(t.Context(), sign(rs, good(v)), now); !errors.Is(err, ErrKeys) ||
		!strings.Contains(err.Error(), "other.example") {
		t.Error(err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAFetchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		v := &Verifier{Issuer: "https://i.example", Audience: "a", Client: &http.Client{Transport: silent}}
		began := time.Now()
		_, err := v.Verify(t.Context(), sign(rs, good(v)), now)
		if !errors.Is(err, ErrKeys) || time.Since(began) != fetchLimit {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
