// Package jwt verifies JSON Web Tokens (RFC 7519, 7515) by the keys that their
// issuer publishes (RFC 7517): signatures by RSA, ECDSA and Ed25519 alone, so that
// no token says how little it takes to be believed.
package jwt

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Skew is how far the clocks of issuer and host may differ.
const Skew = time.Minute

// maxToken is the longest token that is looked at, in bytes.
const maxToken = 16 << 10

// Verifier verifies the tokens of one issuer for one audience. Its fields must not
// be changed once it is used; its methods may be called by many goroutines.
type Verifier struct {
	Issuer   string // what iss must be; required
	Audience string // what aud must name; required
	KeysURL  string // the issuer's JSON Web Key Set; "" asks its metadata (RFC 8414, OpenID Connect Discovery)

	Client *http.Client // default: one that gives up after 10 s

	mu       sync.Mutex // guards the following
	keys     []key
	fetched  time.Time     // when keys were last fetched, or failed to be
	failed   error         // of that
	fetching chan struct{} // closed when the fetch that is under way has ended; nil when none is
}

// Claims are what a verified token says.
type Claims struct {
	Subject string    // sub
	Scopes  []string  // scope, or scp
	Expires time.Time // exp, which every token must have
}

type header struct {
	Alg  string          `json:"alg"`
	Kid  string          `json:"kid"`
	Crit json.RawMessage `json:"crit"`
}

type claims struct {
	Iss   string      `json:"iss"`
	Sub   string      `json:"sub"`
	Aud   stringList  `json:"aud"`
	Exp   json.Number `json:"exp"`
	Nbf   json.Number `json:"nbf"`
	Scope string      `json:"scope"`
	Scp   stringList  `json:"scp"`
}

// stringList is one string, or several.
type stringList []string

// UnmarshalJSON implements [json.Unmarshaler].
func (l *stringList) UnmarshalJSON(data []byte) error {
	var one string
	if err := json.Unmarshal(data, &one); err == nil {
		*l = stringList{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(l))
}

// Verify returns what the token says, if it is the issuer's, for the audience, and
// valid at now. The error wraps ErrKeys when the issuer's keys cannot be had.
func (v *Verifier) Verify(ctx context.Context, token string, now time.Time) (*Claims, error) {
	if len(token) > maxToken {
		return nil, errors.New("too long for a token")
	}
	signed, sig, ok1 := cutLast(token, ".")
	head, body, ok2 := strings.Cut(signed, ".")
	if !ok1 || !ok2 || strings.Contains(body, ".") {
		return nil, errors.New("not three parts")
	}
	var h header
	if err := decode(head, &h); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if h.Crit != nil {
		return nil, errors.New("it has extensions that must be understood, and are not")
	}
	signature, err := base64.RawURLEncoding.Strict().DecodeString(sig)
	if err != nil {
		return nil, fmt.Errorf("signature: %w", err)
	}
	if err := v.check(ctx, &h, []byte(signed), signature, now); err != nil {
		return nil, err
	}
	var c claims
	if err := decode(body, &c); err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	return v.accept(&c, now)
}

// cutLast cuts s around the last sep.
func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func decode(part string, into any) error {
	data, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}

// check verifies the signature by the keys that may have made it.
func (v *Verifier) check(ctx context.Context, h *header, signed, signature []byte, now time.Time) error {
	verify, ok := algorithms[h.Alg]
	if !ok {
		return fmt.Errorf("algorithm %q is not accepted", h.Alg)
	}
	keys, err := v.keysFor(ctx, h, now)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if k.fits(h) && verify(k.public, signed, signature) {
			return nil
		}
	}
	return errors.New("no key of the issuer made its signature")
}

// accept holds the claims against what is expected of them.
func (v *Verifier) accept(c *claims, now time.Time) (*Claims, error) {
	switch {
	case c.Iss != v.Issuer:
		return nil, errors.New("it is another issuer's")
	case !contains(c.Aud, v.Audience):
		return nil, errors.New("it is for somebody else")
	}
	expires, err := instant(c.Exp)
	if err != nil || expires.IsZero() {
		return nil, errors.New("it does not say when it expires")
	}
	if !now.Before(expires.Add(Skew)) {
		return nil, errors.New("it has expired")
	}
	begins, err := instant(c.Nbf)
	if err != nil || now.Add(Skew).Before(begins) {
		return nil, errors.New("it is not valid yet")
	}
	return &Claims{Subject: c.Sub, Scopes: append(strings.Fields(c.Scope), c.Scp...), Expires: expires}, nil
}

func contains(list []string, s string) bool {
	for _, one := range list {
		if s != "" && one == s {
			return true
		}
	}
	return false
}

// instant reads a NumericDate, zero for none.
func instant(n json.Number) (time.Time, error) {
	if n == "" {
		return time.Time{}, nil
	}
	seconds, err := n.Float64()
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return time.Time{}, errors.New("not a date")
	}
	return time.Unix(int64(seconds), 0), nil
}
