package accesstoken

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

// ErrKeys means that the issuer's keys could not be fetched, so no token can be verified.
var ErrKeys = errors.New("the issuer's keys cannot be fetched")

const (
	// keys are fetched again at this age; a withdrawn key is accepted at most this long while the issuer responds
	keysFor    = time.Hour
	keysAtMost = 24 * time.Hour // keys expire at this age, even if the issuer does not respond
	// pause after a failed fetch while keys are known, because fetching delays a caller
	keysRetry   = 5 * time.Minute
	keysAgain   = 10 * time.Second // least time between fetches for unknown key ids
	fetchLimit  = 10 * time.Second // per fetch, including metadata
	maxDocument = 1 << 20          // bytes of a key set or metadata document
	maxKeys     = 100              // per key set; a token without kid is verified with each
	minRSABits  = 2048             // RFC 7518, section 3.3
)

// fits reports whether k may have signed a token with header h.
func fits(k jose.JSONWebKey, h *jose.Header) bool {
	return (h.KeyID == "" || k.KeyID == h.KeyID) && (k.Algorithm == "" || k.Algorithm == h.Algorithm)
}

// keysFor returns the issuer's keys, after fetching them if they are old or none fits. A caller whose key is
// known does not wait for another caller's fetch, so that a token with an unknown key delays only its sender.
func (v *Verifier) keysFor(ctx context.Context, h *jose.Header, now time.Time) ([]jose.JSONWebKey, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now.Sub(v.confirmed) > keysAtMost {
		v.keys = nil
	}
	age := now.Sub(v.fetched)
	known := slices.ContainsFunc(v.keys, func(k jose.JSONWebKey) bool { return fits(k, h) })
	if v.fetched.IsZero() || age > keysFor || v.failed != nil && age > keysRetry || !known && age > keysAgain {
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

// refreshLocked fetches the keys, without holding the lock meanwhile. The fetch continues if the caller leaves;
// otherwise impatient callers would start one fetch after the other.
func (v *Verifier) refreshLocked(ctx context.Context, now time.Time) {
	v.fetching = make(chan struct{})
	v.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchLimit)
	keys, err := v.fetch(ctx)
	cancel()
	v.mu.Lock()
	v.fetched, v.failed = now, err
	if err == nil {
		v.keys, v.confirmed = keys, now
	}
	close(v.fetching)
	v.fetching = nil
}

// awaitLocked waits for the current fetch, without holding the lock.
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

// fetch fetches the usable keys and ignores all others (RFC 7517, section 5). It decodes keys one by one, because
// go-jose refuses a set with one invalid key.
func (v *Verifier) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
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
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && usable(&k) {
			keys = append(keys, k)
		}
	}
	switch {
	case len(keys) == 0:
		return nil, fmt.Errorf("%s holds no key that can be used", at)
	case len(keys) > maxKeys:
		return nil, fmt.Errorf("%s holds %d keys, more than %d", at, len(keys), maxKeys)
	}
	return keys, nil
}

// usable reports whether k is a public signature key. Symmetric and private keys are refused, since anybody could
// sign with a published one.
func usable(k *jose.JSONWebKey) bool {
	if r, ok := k.Key.(*rsa.PublicKey); ok && r.N.BitLen() < minRSABits {
		return false
	}
	return k.IsPublic() && (k.Use == "" || k.Use == "sig")
}

// discover reads the key set's URL from the issuer's metadata.
func (v *Verifier) discover(ctx context.Context) (string, error) {
	issuer, err := url.Parse(v.Issuer)
	if err != nil {
		return "", err
	}
	path := strings.TrimSuffix(issuer.Path, "/")
	var errs []error
	for _, well := range []string{
		"/.well-known/oauth-authorization-server" + path,
		"/.well-known/openid-configuration" + path,
		path + "/.well-known/openid-configuration",
	} {
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
