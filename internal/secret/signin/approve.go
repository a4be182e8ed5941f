package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"

	"golang.org/x/oauth2"

	"github.com/exthost/exthost/internal/secret/logins"
)

// byCode performs an authorization code login. open shows the user an address and returns the parameters with
// which the browser was redirected back.
func byCode(ctx context.Context, f *found, config *oauth2.Config, open func(ctx context.Context,
	address, state string) (url.Values, error)) (*oauth2.Token, error) {
	resource := oauth2.SetAuthURLParam("resource", f.resource)
	state, verifier := rand.Text(), oauth2.GenerateVerifier()
	back, err := open(ctx, config.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), resource), state)
	if err != nil {
		return nil, err
	}
	code, err := f.authority.code(back, state)
	if err != nil {
		return nil, err
	}
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(verifier), resource)
	if err != nil {
		return nil, fmt.Errorf("the authorization server gives no token: %w",
			exchangeError(err, code, verifier, config.ClientSecret))
	}
	return token, nil
}

// code returns the authorization code in the redirect parameters. It verifies state, and the issuer if sent (RFC
// 9207), so that nobody can inject the code of another login.
func (a *authority) code(back url.Values, state string) (string, error) {
	if !same(back.Get("state"), state) {
		return "", errors.New("the answer of the browser belongs to another login; try again")
	}
	switch iss := back.Get("iss"); {
	case iss == "" && a.AuthorizationResponseIssParameterSupported:
		return "", errors.New("the answer of the browser does not name its authorization server (iss), as the server " +
			"promised: it may be of another one")
	case iss != "" && iss != a.Issuer:
		return "", fmt.Errorf("the answer of the browser is of the authorization server %s, and %s was asked",
			short(iss), a.Issuer)
	}
	switch e := back.Get("error"); {
	case e == "access_denied":
		return "", errors.New("the login was refused in the browser" + described(back))
	case e != "":
		return "", fmt.Errorf("the authorization server refuses the login (%s)%s", short(e), described(back))
	case back.Get("code") == "":
		return "", errors.New("the answer of the browser has no code")
	}
	return back.Get("code"), nil
}

// same compares secrets in constant time.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func described(back url.Values) string {
	if text := back.Get("error_description"); text != "" {
		return ": " + short(text)
	}
	return ""
}

// exchangeError formats a token endpoint error without secrets.
func exchangeError(err error, secrets ...string) error {
	e, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return errors.New(short(plain(err).Error()))
	}
	text := "it answers " + short(e.Response.Status)
	if e.ErrorCode != "" {
		text += " " + logins.Said(e, secrets...)
	}
	return &refusal{text, e.ErrorCode}
}

// refusal is an error returned by the authorization server.
type refusal struct{ text, code string }

func (e *refusal) Error() string { return e.text }

// ofClient reports whether the server refused the client itself.
func (e *refusal) ofClient() bool {
	return e.code == "invalid_client" || e.code == "unauthorized_client"
}
