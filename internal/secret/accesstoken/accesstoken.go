// Package accesstoken verifies access tokens that are signed JWTs (RFC 7519), with the keys that their issuer
// publishes (RFC 7517).
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

// Skew is the tolerated clock difference between issuer and host.
const Skew = time.Minute

// maxToken limits a token, in bytes.
const maxToken = 16 << 10

// algorithms are the accepted signature algorithms, all asymmetric. With "none", or HMAC keyed by a public key,
// anybody could forge tokens.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// Verifier verifies the tokens of one issuer for one audience. Its fields must not change after the first call of
// Verify, which is safe for concurrent use.
type Verifier struct {
	Issuer   string // required iss
	Audience string // required member of aud
	// URL of the issuer's JWK Set; default: jwks_uri of its metadata (RFC 8414, OpenID Connect Discovery)
	KeysURL string

	// fetches keys and metadata, within 10 s and without redirects to another host; default: http.DefaultClient
	Client *http.Client

	mu        sync.Mutex // guards the fields below
	keys      []jose.JSONWebKey
	confirmed time.Time     // last successful fetch
	fetched   time.Time     // last fetch, including failed ones
	failed    error         // error of the last fetch
	fetching  chan struct{} // closed when the current fetch ends; nil without one
}

// Claims are the claims of a verified token.
type Claims struct {
	Subject string    // sub
	Scopes  []string  // scope (RFC 8693, section 4.2) and scp
	Expires time.Time // exp
}

// claims are the claims that are checked or returned. go-jose decodes them, because encoding/json would accept
// SUB for sub.
type claims struct {
	Issuer    string           `json:"iss"`
	Subject   string           `json:"sub"`
	Audience  jwt.Audience     `json:"aud"`
	Expiry    *jwt.NumericDate `json:"exp"`
	NotBefore *jwt.NumericDate `json:"nbf"`
	Scope     string           `json:"scope"`
	Scp       *jwt.Audience    `json:"scp"` // one string or a list, like aud
}

// Verify returns the claims of a token that is signed by the issuer for the audience and valid at now. The error
// wraps ErrKeys if the keys could not be fetched. Errors never contain the token.
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

// verifySignature returns the payload of a token signed with one of the issuer's keys. Keys in the token's header
// (jwk, jku, x5c, x5u) are ignored.
func (v *Verifier) verifySignature(ctx context.Context, token string, now time.Time) ([]byte, error) {
	for part := range strings.SplitSeq(token, ".") { // go-jose accepts several encodings of one token
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

// accept validates the claims.
func (v *Verifier) accept(c *claims, now time.Time) (*Claims, error) {
	switch {
	case v.Issuer == "" || v.Audience == "": // go-jose would skip these checks
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
