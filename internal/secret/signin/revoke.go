package signin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/oauth2"

	"github.com/exthost/exthost/internal/secret/logins"
)

// Revoke revokes a grant (RFC 7009), if its authorization server supports that.
func Revoke(ctx context.Context, g *logins.Grant) error {
	if g.Revocation == "" || g.Ended != "" {
		return nil
	}
	if err := secure(g.Revocation); err != nil {
		return err
	}
	token, kind := g.Refresh, "refresh_token"
	if token == "" {
		token, kind = g.Access, "access_token"
	}
	form := url.Values{"token": {token}, "token_type_hint": {kind}}
	inHeader := g.Client.Style == oauth2.AuthStyleInHeader
	if !inHeader {
		form.Set("client_id", g.Client.ID)
		if g.Client.Secret != "" {
			form.Set("client_secret", g.Client.Secret)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.Revocation, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if inHeader {
		r.SetBasicAuth(url.QueryEscape(g.Client.ID), url.QueryEscape(g.Client.Secret))
	}
	client := Client(g.Place.URL)
	defer client.CloseIdleConnections()
	resp, err := client.Do(r)
	if err != nil {
		return plain(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New("it answers " + short(resp.Status))
	}
	return nil
}
