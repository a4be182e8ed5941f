// Package accesstoken verifies access tokens that are signed JSON Web Tokens (RFC
// 7519) with the keys that their issuer publishes (RFC 7517).
package accesstoken

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Skew is the tolerated difference between the clocks of issuer and host.
const Skew = time.Minute

// maxToken is the length of the longest accepted token, in bytes.
const maxToken = 16 << 10

// algorithms are the accepted signature algorithms. All are asymmetric: anybody could
// make a token that is signed by none, or by HMAC with a public key as the secret.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// Verifier verifies the tokens of one issuer for one audience. Its fields must not
// be changed after the first call of Verify, which is safe for concurrent use.
type Verifier struct {
	Issuer   string // required value of iss
	Audience string // required member of aud
	// URL of the issuer's JSON Web Key Set; default: jwks_uri of its metadata (RFC 8414, OpenID Connect Discovery)
	KeysURL string

	// fetches keys and metadata, without redirects to another host; default: http.DefaultClient; each fetch ends after
	// 10 s
	Client *http.Client

	mu        sync.Mutex // guards the fields below
	keys      []jose.JSONWebKey
	confirmed time.Time     // the last fetch that brought keys
	fetched   time.Time     // end of the last fetch, failed ones included
	failed    error         // of the last fetch
	fetching  chan struct{} // closed at the end of the fetch in progress; nil without one
}

// Claims are the contents of a verified token.
type Claims struct {
	Subject string    // sub
	Scopes  []string  // scope (RFC 8693, section 4.2) and scp
	Expires time.Time // exp
}

// claims are the claims that count. The library decodes them, because encoding/json
// takes SUB for sub.
type claims struct {
	Issuer    string           `json:"iss"`
	Subject   string           `json:"sub"`
	Audience  jwt.Audience     `json:"aud"`
	Expiry    *jwt.NumericDate `json:"exp"`
	NotBefore *jwt.NumericDate `json:"nbf"`
	Scope     string           `json:"scope"`
	Scp       *jwt.Audience    `json:"scp"` // one string or a list, as aud is
}

// Verify returns the claims of a token that a key of the issuer has signed for the
// audience and that is valid at now. The error wraps ErrKeys when the issuer's keys
// cannot be fetched. No error contains the token.
func (v *Verifier) Verify(ctx context.Context, token string, now time.Time) (*Claims, error) {
	if len(token) > maxToken {
		return nil, fmt.Errorf("it is longer than %d bytes", maxToken)
	}
	payload, err := v.verifySignature(ctx, token, now)
	if err != nil {
		return nil, err
	}
	var c claims
	if err := json.Unmarshal(payload, &c); err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	return v.accept(&c, now)
}

// verifySignature returns the payload of a token that one of the issuer's keys has
// signed. Keys that the token itself carries or points to (jwk, jku, x5c, x5u) count for
// nothing.
func (v *Verifier) verifySignature(ctx context.Context, token string, now time.Time) ([]byte, error) {
	for part := range strings.SplitSeq(token, ".") { // the library takes several spellings of one token
		if _, err := base64.RawURLEncoding.Strict().DecodeString(part); err != nil {
			return nil, err
		}
	}
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if bad, ok := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); ok {
		return nil, fmt.Errorf("algorithm %q is not accepted", bad.Got)
	}
	if err != nil {
		return nil, fmt.Errorf("not a signed token: %w", err)
	}
	h := &signed.Signatures[0].Header
	if _, ok := h.ExtraHeaders["crit"]; ok {
		return nil, errors.New("its header has crit (RFC 7515, section 4.1.11), and no extension is supported")
	}
	keys, err := v.keysFor(ctx, h, now)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if !fits(k, h) {
			continue
		}
		if payload, err := signed.Verify(k); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("no key of the issuer made its signature")
}

// accept compares the claims with the expected ones.
func (v *Verifier) accept(c *claims, now time.Time) (*Claims, error) {
	switch {
	case v.Issuer == "" || v.Audience == "": // the library would skip the check
		return nil, errors.New("no issuer or no audience is configured")
	case c.Expiry == nil:
		return nil, errors.New("it has no exp, the time at which it expires")
	}
	found := jwt.Claims{Issuer: c.Issuer, Audience: c.Audience, Expiry: c.Expiry, NotBefore: c.NotBefore}
	expected := jwt.Expected{Issuer: v.Issuer, AnyAudience: jwt.Audience{v.Audience}, Time: now}
	if err := found.ValidateWithLeeway(expected, Skew); err != nil {
		return nil, err
	}
	scopes := strings.Fields(c.Scope)
	if c.Scp != nil {
		scopes = append(scopes, *c.Scp...)
	}
	return &Claims{Subject: c.Subject, Scopes: scopes, Expires: c.Expiry.Time()}, nil
}
