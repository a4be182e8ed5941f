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

// Place is what is signed in, and where. A grant is for one place: neither another extension with
// the same address nor the same extension with another address gets its tokens.
type Place struct {
	ID  string `json:"id"`  // of the extension or destination
	Of  string `json:"of"`  // what states it: the directory of the extension, or the file of the configuration
	URL string `json:"url"` // of the server
	// Caller is whose login it is, at a server that wants one of each caller. "": one serves all.
	Caller string `json:"caller,omitempty"`
}

// name returns the name of the place's directory: the id, for those who look at it, and a hash of
// everything.
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

// Grant is what an authorization server has granted for a place, and to which client.
type Grant struct {
	Place  Place  `json:"place"`
	Issuer string `json:"issuer"` // of the authorization server
	Client Client `json:"client"`

	Resource   string   `json:"resource"` // that the tokens are for (RFC 8707)
	TokenURL   string   `json:"token_url"`
	Revocation string   `json:"revocation_url,omitempty"` // "": tokens cannot be revoked
	Scopes     []string `json:"scopes,omitempty"`

	Access  string    `json:"access"`
	Refresh string    `json:"refresh,omitempty"` // "": there will be no other access token
	Issued  time.Time `json:"issued"`            // the access token
	Expires time.Time `json:"expires,omitzero"`  // zero: unknown
	// Ended says why the authorization server gives no more tokens; "" while it may.
	Ended string `json:"ended,omitempty"`
}

// Client is the client that the grant was given to.
type Client struct {
	ID     string           `json:"id"`
	Secret string           `json:"secret,omitempty"`
	Style  oauth2.AuthStyle `json:"style,omitempty"` // how the client names itself to the token endpoint
	// the address that the browser is sent back to; "" where none was
	Redirect string `json:"redirect"`
	// SecretExpires is when the authorization server takes Secret no more; zero: never.
	SecretExpires time.Time `json:"secret_expires,omitzero"`
	// Registered says that the client registered itself for this place.
	Registered bool `json:"registered,omitempty"`
}

// margin is how long before its end a token is renewed, at most. Tokens that live shorter than ten
// times that are renewed in the last tenth of their life.
const margin = 30 * time.Second

// due reports whether the access token should be renewed.
func (g *Grant) due(now time.Time) bool {
	return !g.Expires.IsZero() && !now.Before(g.Expires.Add(-min(margin, g.Expires.Sub(g.Issued)/10)))
}

// expired reports whether the access token has ended by this machine's clock.
func (g *Grant) expired(now time.Time) bool { return !g.Expires.IsZero() && !now.Before(g.Expires) }

// Accept takes the tokens that the authorization server has answered with to a request of now. The
// error is for tokens that no request can be signed in with.
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
	if !g.Expires.After(now) { // nonsense, with which every request would renew it
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

// maxToken bounds an access token, in bytes.
const maxToken = 32 << 10
