package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/exthost/exthost/internal/secret/logins"
)

// register returns the client to use, in this order: the client metadata document, the configured client, the
// client of the earlier grant, or a dynamically registered one (RFC 7591).
func (s *Server) register(ctx context.Context, client *http.Client, f *found, redirect string, earlier *logins.Grant,
) (logins.Client, error) {
	a := &f.authority
	switch {
	case s.MetadataURL != "" && a.ClientIDMetadataDocumentSupported:
		return logins.Client{ID: s.MetadataURL, Redirect: redirect, Style: oauth2.AuthStyleInParams}, nil
	case s.ClientID != "" && earlier != nil && earlier.Client.ID == s.ClientID && earlier.Issuer != a.Issuer:
		return logins.Client{},
			fmt.Errorf("client_id is of the authorization server %s, and the server names another one now, %s: "+
				"exthost secret logout %s, if that one is to be trusted with the client", shown(earlier.Issuer),
				shown(a.Issuer), s.Place.ID)
	case s.ClientID != "":
		return logins.Client{
			ID:       s.ClientID,
			Secret:   s.ClientSecret,
			Redirect: redirect,
			Style:    a.style(s.ClientSecret),
		}, nil
	case reusable(earlier, a, redirect):
		return earlier.Client, nil
	case a.RegistrationEndpoint == "":
		return logins.Client{},
			errors.New("the authorization server registers no clients by itself: create one there, with the redirect " +
				"address http://127.0.0.1/callback, and state client_id under [transport.oauth]")
	}
	return dynamic(ctx, client, a, redirect)
}

// reusable reports whether the earlier grant's client can be used again.
func reusable(earlier *logins.Grant, a *authority, redirect string) bool {
	if earlier == nil || !earlier.Client.Registered || earlier.Issuer != a.Issuer ||
		earlier.Client.Redirect != redirect || earlier.Ended != "" {
		return false
	}
	expires := earlier.Client.SecretExpires
	return expires.IsZero() || time.Now().Before(expires)
}

// dynamic registers a client, if possible without a secret: a program that everybody can install has no secrets.
func dynamic(ctx context.Context, client *http.Client, a *authority, redirect string) (logins.Client, error) {
	m := &oauthex.ClientRegistrationMetadata{
		ClientName:              "exthost",
		GrantTypes:              []string{"authorization_code", "refresh_token"},
		ResponseTypes:           []string{"code"},
		TokenEndpointAuthMethod: "none",
		ApplicationType:         "native",
	}
	if redirect != "" {
		m.RedirectURIs = []string{redirect}
	} else {
		m.GrantTypes[0] = deviceGrant
	}
	if methods := a.TokenEndpointAuthMethodsSupported; len(methods) > 0 && !slices.Contains(methods, "none") {
		known := slices.IndexFunc(methods,
			func(method string) bool { return method == "client_secret_post" || method == "client_secret_basic" })
		if known < 0 {
			return logins.Client{},
				fmt.Errorf("the authorization server wants clients to name themselves by %s, which exthost cannot",
					short(strings.Join(methods, ", ")))
		}
		m.TokenEndpointAuthMethod = methods[known]
	}
	r, err := oauthex.RegisterClient(ctx, a.RegistrationEndpoint, m, client)
	if err != nil {
		return logins.Client{},
			fmt.Errorf("the authorization server registers no client: %s; create one there and state client_id under "+
				"[transport.oauth]", short(plain(err).Error()))
	}
	c := logins.Client{
		ID:            r.ClientID,
		Secret:        r.ClientSecret,
		SecretExpires: r.ClientSecretExpiresAt,
		Redirect:      redirect,
		Registered:    true,
	}
	switch r.TokenEndpointAuthMethod {
	case "client_secret_basic":
		c.Style = oauth2.AuthStyleInHeader
	case "client_secret_post", "none":
		c.Style = oauth2.AuthStyleInParams
	default:
		c.Style = a.style(c.Secret)
	}
	return c, nil
}

// style returns how a client authenticates. A client without a secret sends its id as a parameter.
func (a *authority) style(secret string) oauth2.AuthStyle {
	methods := a.TokenEndpointAuthMethodsSupported
	if secret == "" || slices.Contains(methods, "client_secret_post") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader // the default of RFC 8414
}
