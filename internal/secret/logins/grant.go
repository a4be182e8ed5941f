package logins

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// Place identifies a login. Tokens are used only for the exact place: not for another extension with the same
// URL, nor for the same extension with another URL.
type Place struct {
	ID  string `json:"id"`  // extension or destination id
	Of  string `json:"of"`  // directory of the extension, or configuration file
	URL string `json:"url"` // of the server
	// Caller is the caller who signed in, where every caller has its own login. "": the login is shared.
	Caller string `json:"caller,omitempty"`
}

// name returns the directory name of the place: its id, for people, and a hash of all fields.
func (p Place) name() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{p.ID, p.Of, p.URL, p.Caller}, "\x00")))
	plain := strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' {
			return c
		}
		return '_'
	}, p.ID)
	return plain[:min(len(plain), 64)] + "-" + hex.EncodeToString(sum[:16])
}

// Grant is an OAuth grant for a place.
type Grant struct {
	Place  Place  `json:"place"`
	Issuer string `json:"issuer"` // authorization server
	Client Client `json:"client"`

	Resource   string   `json:"resource"` // resource of the tokens (RFC 8707)
	TokenURL   string   `json:"token_url"`
	Revocation string   `json:"revocation_url,omitempty"` // "": tokens cannot be revoked
	Scopes     []string `json:"scopes,omitempty"`

	Access  string    `json:"access"`
	Refresh string    `json:"refresh,omitempty"` // "": the grant cannot be renewed
	Issued  time.Time `json:"issued"`            // when Access was issued
	Expires time.Time `json:"expires,omitzero"`  // zero: unknown
	// Ended is why the grant cannot be renewed any more; "" while it can.
	Ended string `json:"ended,omitempty"`
}

// Client is the OAuth client of the grant.
type Client struct {
	ID     string           `json:"id"`
	Secret string           `json:"secret,omitempty"`
	Style  oauth2.AuthStyle `json:"style,omitempty"` // how the client authenticates to the token endpoint
	// redirect URI; "" without a browser
	Redirect string `json:"redirect"`
	// SecretExpires is when Secret expires; zero: never.
	SecretExpires time.Time `json:"secret_expires,omitzero"`
	// Registered is set if the client was registered dynamically for this place.
	Registered bool `json:"registered,omitempty"`
}

// margin is how long before expiry a token is renewed. A token that lives less than ten times margin is renewed in
// the last tenth of its life.
const margin = 30 * time.Second

// due reports whether the access token should be renewed.
func (g *Grant) due(now time.Time) bool {
	return !g.Expires.IsZero() && !now.Before(g.Expires.Add(-min(margin, g.Expires.Sub(g.Issued)/10)))
}

// expired reports whether the access token has expired by this machine's clock.
func (g *Grant) expired(now time.Time) bool { return !g.Expires.IsZero() && !now.Before(g.Expires) }

// Accept stores the tokens of a response to a request sent at now. It refuses tokens that cannot be sent as a
// Bearer header.
func (g *Grant) Accept(t *oauth2.Token, now time.Time) error {
	if kind := t.Type(); kind != "Bearer" {
		return fmt.Errorf("the authorization server gives %s tokens, and exthost can send Bearer tokens alone",
			short(kind, 32))
	}
	if strings.ContainsFunc(t.AccessToken, func(c rune) bool { return c <= ' ' || c > '~' }) ||
		len(t.AccessToken) > maxToken {
		return errors.New("the authorization server gives a token that no header can have")
	}
	g.Access, g.Issued, g.Expires, g.Ended = t.AccessToken, now, t.Expiry, ""
	if !g.Expires.After(now) { // implausible; every request would renew the token
		g.Expires = time.Time{}
	}
	if t.RefreshToken != "" {
		g.Refresh = t.RefreshToken
	}
	if scope, _ := t.Extra("scope").(string); scope != "" {
		g.Scopes = strings.Fields(scope)
	}
	return nil
}

// maxToken limits an access token, in bytes.
const maxToken = 32 << 10
