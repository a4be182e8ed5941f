package jwt

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	_ "crypto/sha256" // registers the hashes of algorithms
	_ "crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// ErrKeys means that the issuer's keys could not be fetched: nothing is known of
// the token.
var ErrKeys = errors.New("jwt: the issuer's keys cannot be fetched")

const (
	keysFor     = time.Hour        // how long keys are believed to be current
	keysAgain   = 10 * time.Second // the least between two fetches, whatever tokens say
	fetchLimit  = 10 * time.Second // for one fetch, metadata included
	maxDocument = 1 << 20
	minRSABits  = 2048
)

// algorithms are the ways in which a signature may be made, as what verifies one.
var algorithms = map[string]func(public any, signed, signature []byte) bool{
	"RS256": pkcs1(crypto.SHA256), "RS384": pkcs1(crypto.SHA384), "RS512": pkcs1(crypto.SHA512),
	"PS256": pss(crypto.SHA256), "PS384": pss(crypto.SHA384), "PS512": pss(crypto.SHA512),
	"ES256": ecdsaBy(crypto.SHA256, elliptic.P256()), "ES384": ecdsaBy(crypto.SHA384, elliptic.P384()), "ES512": ecdsaBy(crypto.SHA512, elliptic.P521()),
	"EdDSA": func(public any, signed, signature []byte) bool {
		k, ok := public.(ed25519.PublicKey)
		return ok && ed25519.Verify(k, signed, signature)
	},
}

func sum(h crypto.Hash, signed []byte) []byte {
	d := h.New()
	d.Write(signed)
	return d.Sum(nil)
}

func pkcs1(h crypto.Hash) func(any, []byte, []byte) bool {
	return func(public any, signed, signature []byte) bool {
		k, ok := public.(*rsa.PublicKey)
		return ok && rsa.VerifyPKCS1v15(k, h, sum(h, signed), signature) == nil
	}
}

func pss(h crypto.Hash) func(any, []byte, []byte) bool {
	return func(public any, signed, signature []byte) bool {
		k, ok := public.(*rsa.PublicKey)
		return ok && rsa.VerifyPSS(k, h, sum(h, signed), signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
	}
}

func ecdsaBy(h crypto.Hash, curve elliptic.Curve) func(any, []byte, []byte) bool {
	return func(public any, signed, signature []byte) bool {
		k, ok := public.(*ecdsa.PublicKey)
		size := (curve.Params().BitSize + 7) / 8
		if !ok || k.Curve != curve || len(signature) != 2*size {
			return false
		}
		r, s := new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:])
		return ecdsa.Verify(k, sum(h, signed), r, s)
	}
}

// key is a public key, and what it may be used for.
type key struct {
	id, algorithm string // "" when it does not say
	public        any
}

func (k *key) fits(h *header) bool {
	return (h.Kid == "" || k.id == h.Kid) && (k.algorithm == "" || k.algorithm == h.Alg)
}

// keysFor returns the issuer's keys: those that are known, or new ones when they
// are old or none of them fits. Who needs no new ones waits for none: a token that
// names a key nobody has costs its bearer time, and nobody else.
func (v *Verifier) keysFor(ctx context.Context, h *header, now time.Time) ([]key, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	age := now.Sub(v.fetched)
	known := slices.ContainsFunc(v.keys, func(k key) bool { return k.fits(h) })
	if v.fetched.IsZero() || age > keysFor || !known && age > keysAgain {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKeys, err)
		}
		switch {
		case v.fetching == nil:
			v.refreshLocked(ctx, now)
		case !known:
			if err := v.awaitLocked(ctx); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrKeys, err)
			}
		}
	}
	if len(v.keys) == 0 && v.failed != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeys, v.failed)
	}
	return v.keys, nil
}

// refreshLocked fetches the keys, without the lock. It does so to the end when the
// caller leaves: who comes and goes would have them fetched again and again.
func (v *Verifier) refreshLocked(ctx context.Context, now time.Time) {
	v.fetching = make(chan struct{})
	v.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchLimit)
	keys, err := v.fetch(ctx)
	cancel()
	v.mu.Lock()
	v.fetched, v.failed = now, err
	if err == nil {
		v.keys = keys
	}
	close(v.fetching)
	v.fetching = nil
}

// awaitLocked waits, without the lock, for the fetch that is under way.
func (v *Verifier) awaitLocked(ctx context.Context) error {
	ended := v.fetching
	v.mu.Unlock()
	defer v.mu.Lock()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fetch gets the keys.
func (v *Verifier) fetch(ctx context.Context) ([]key, error) {
	at := v.KeysURL
	if at == "" {
		var err error
		if at, err = v.discover(ctx); err != nil {
			return nil, err
		}
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := v.get(ctx, at, &set); err != nil {
		return nil, err
	}
	var keys []key
	for _, raw := range set.Keys {
		if k, ok := readKey(raw); ok { // others are for others
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s holds no key that can be used", at)
	}
	return keys, nil
}

// discover asks the issuer's metadata where its keys are.
func (v *Verifier) discover(ctx context.Context) (string, error) {
	issuer, err := url.Parse(v.Issuer)
	if err != nil {
		return "", err
	}
	path := strings.TrimSuffix(issuer.Path, "/")
	var errs []error
	for _, well := range []string{"/.well-known/oauth-authorization-server" + path, "/.well-known/openid-configuration" + path, path + "/.well-known/openid-configuration"} {
		u := *issuer
		u.Path, u.RawQuery = well, ""
		var m struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		err := v.get(ctx, u.String(), &m)
		if err == nil && m.Issuer != v.Issuer {
			err = fmt.Errorf("%s is of the issuer %q", &u, m.Issuer)
		}
		if err == nil && m.Keys == "" {
			err = fmt.Errorf("%s does not say where the keys are", &u)
		}
		if err == nil {
			return m.Keys, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

func (v *Verifier) get(ctx context.Context, at string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	client := v.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", at, resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return err
	}
	if len(data) > maxDocument {
		return fmt.Errorf("%s is longer than %d bytes", at, maxDocument)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

// jwk is one JSON Web Key.
type jwk struct {
	Kty, Use, Kid, Alg, Crv string
	N, E, X, Y              string
}

// readKey reads a public key for signatures; false when it is none.
func readKey(raw json.RawMessage) (key, bool) {
	var j jwk
	if json.Unmarshal(raw, &j) != nil || j.Use != "" && j.Use != "sig" {
		return key{}, false
	}
	k := key{id: j.Kid, algorithm: j.Alg}
	switch j.Kty {
	case "RSA":
		k.public = rsaKey(&j)
	case "EC":
		k.public = ecKey(&j)
	case "OKP":
		if x := bytesOf(j.X); j.Crv == "Ed25519" && len(x) == ed25519.PublicKeySize {
			k.public = ed25519.PublicKey(x)
		}
	}
	return k, k.public != nil
}

func bytesOf(text string) []byte {
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return nil
	}
	return data
}

// rsaKey returns any, so that none is nil.
func rsaKey(j *jwk) any {
	n, e := new(big.Int).SetBytes(bytesOf(j.N)), new(big.Int).SetBytes(bytesOf(j.E))
	if n.BitLen() < minRSABits || !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 {
		return nil
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}
}

func ecKey(j *jwk) any {
	curve, ok := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[j.Crv]
	if !ok {
		return nil
	}
	size := (curve.Params().BitSize + 7) / 8
	x, y := bytesOf(j.X), bytesOf(j.Y)
	if len(x) > size || len(y) > size {
		return nil
	}
	point := make([]byte, 1+2*size)
	point[0] = 4
	copy(point[1+size-len(x):], x)
	copy(point[1+2*size-len(y):], y)
	k, err := ecdsa.ParseUncompressedPublicKey(curve, point)
	if err != nil {
		return nil // not on the curve
	}
	return k
}
