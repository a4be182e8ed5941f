package accesstoken

import (
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestKeysComeFromTheirIssuer: keys are fetched with TLS or from this machine, from the named host only.
func TestKeysComeFromTheirIssuer(t *testing.T) {
	evil := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was fetched", r.URL)
	}))
	defer evil.Close()
	mux := http.NewServeMux()
	s := httptest.NewTLSServer(mux)
	defer s.Close()
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, keySet()) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/keys", http.StatusFound)
	})
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, evil.URL+"/keys", http.StatusFound)
	})
	mux.HandleFunc("/plain", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.Host+"/keys", http.StatusFound)
	})
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/round", http.StatusFound)
	})
	for at, reason := range map[string]string{
		s.URL + "/keys":                "",
		s.URL + "/moved":               "",
		s.URL + "/away":                "redirects to http://127.0.0.1",
		s.URL + "/plain":               "redirects to http://127.0.0.1",
		s.URL + "/round":               "too often",
		"http://issuer.example/keys":   "not an https address",
		"http://127.0.0.1.nip.io/keys": "not an https address",
		"file:///etc/keys":             "not an https address",
	} {
		v := &Verifier{Issuer: "i", Audience: "a", KeysURL: at, Client: s.Client()}
		_, err := v.Verify(t.Context(), sign(rs, good(v)), now)
		if reason == "" && err != nil ||
			reason != "" && (!errors.Is(err, ErrKeys) || !strings.Contains(err.Error(), reason)) {
			t.Errorf("%s: %v, want %q", at, err, reason)
		}
	}
}

// TestMetadataThatIsNotTaken: metadata must not refer to keys without TLS, and misspelt or duplicate members are
// not accepted.
func TestMetadataThatIsNotTaken(t *testing.T) {
	var metadata string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			fmt.Fprint(w, keySet())
			return
		}
		fmt.Fprint(w, metadata)
	}))
	defer s.Close()
	for name, text := range map[string]string{
		"keys without TLS":   `{"issuer":"%[1]s","jwks_uri":"http://keys.example/"}`,
		"another spelling":   `{"issuer":"%[1]s","JWKS_URI":"%[1]s/keys"}`,
		"the keys twice":     `{"issuer":"%[1]s","jwks_uri":"https://other.example","jwks_uri":"%[1]s/keys"}`,
		"another issuer too": `{"issuer":"https://other.example","Issuer":"%[1]s","jwks_uri":"%[1]s/keys"}`,
	} {
		metadata = fmt.Sprintf(text, s.URL)
		v := &Verifier{Issuer: s.URL, Audience: "a"}
		if _, err := v.Verify(t.Context(), sign(rs, good(v)), now); !errors.Is(err, ErrKeys) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKeysAreNotForEver: withdrawn keys are valid for at most an hour, and all keys for at most a day if the
// issuer does not respond.
func TestKeysAreNotForEver(t *testing.T) {
	set, down, asked := keySet(), false, 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		if down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, set)
	}))
	defer s.Close()
	v := &Verifier{Issuer: "i", Audience: "a", KeysURL: s.URL}
	other := fmt.Sprintf(`{"keys":[%s]}`, rsaJWK(&evilKey.PublicKey, `,"kid":"next"`))
	token := func(k *rsa.PrivateKey, head string) string {
		return signWith(k, nil, head, changed(v, map[string]any{"exp": now.Add(99 * keysAtMost).Unix()}))
	}
	valid := func(later time.Duration) error {
		_, err := v.Verify(t.Context(), token(rsaKey2, rs), now.Add(later))
		return err
	}
	if err := valid(0); err != nil {
		t.Fatal(err)
	}
	down = true
	for _, later := range []time.Duration{keysFor + 1, keysFor + 2, keysFor + keysRetry + 2, keysAtMost} {
		if err := valid(later); err != nil {
			t.Errorf("%v after the issuer went down: %v", later, err)
		}
	}
	if asked != 4 { // at first, at their age, after the retry, and a day later
		t.Errorf("asked %d times", asked)
	}
	if err := valid(keysAtMost + 1); !errors.Is(err, ErrKeys) {
		t.Errorf("a day after the issuer went down: %v", err)
	}
	down = false
	if err := valid(keysAtMost + keysRetry); err != nil {
		t.Errorf("when the issuer is back: %v", err)
	}
	set = other
	if err := valid(keysAtMost + keysRetry + keysFor + 1); err == nil || errors.Is(err, ErrKeys) {
		t.Errorf("an hour after the key was withdrawn: %v", err)
	}
}
