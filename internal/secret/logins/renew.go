package logins

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/exthost/exthost/internal/file/atomicfile"
	"github.com/exthost/exthost/internal/text/display"
)

// retryLater is the error of an authorization server that may answer the same later.
type retryLater struct {
	text  string
	after time.Duration // that it asked for; 0: it did not
}

func (e *retryLater) Error() string { return e.text }

// renew returns g with another access token than before. The grant is returned as it is when
// another program has renewed it meanwhile, and with the reason in Ended when the authorization
// server gives no more tokens. path is the file of g.
func renew(ctx context.Context, client *http.Client, path string, g *Grant, before string) (*Grant, error) {
	switch {
	case g == nil:
		return nil, errors.New("somebody has signed out")
	case g.Access != before || g.Ended != "" || g.Refresh == "":
		return g, nil
	}
	if err := rewrite(path); err != nil {
		return nil, err
	}
	now := time.Now() // before the exchange, so that the token is not taken to live longer than it does
	t, err := exchange(ctx, client, g, oauth2.SetAuthURLParam("grant_type", "refresh_token"),
		oauth2.SetAuthURLParam("refresh_token", g.Refresh))
	next := *g
	if err == nil {
		return &next, next.Accept(t, now)
	}
	if next.Ended = g.ended(err); next.Ended != "" {
		return &next, nil
	}
	return nil, g.failure(err)
}

// rewrite writes a file as it is. Where that fails, as on a full disk, no token is asked for: it could
// not be stored, and the refresh token that is stored would be used up.
func rewrite(path string) error {
	data, err := os.ReadFile(path)
	if err == nil {
		err = atomicfile.WritePrivate(path, data)
	}
	if err != nil {
		return fmt.Errorf("another token could not be stored: %w", err)
	}
	return nil
}

// hide returns a text of the authorization server without secrets.
func hide(text string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return text
}

// secrets are those of g that the authorization server knows.
func (g *Grant) secrets() []string { return []string{g.Refresh, g.Access, g.Client.Secret} }

// exchange asks the token endpoint of g for tokens.
func exchange(ctx context.Context, client *http.Client, g *Grant, parameters ...oauth2.AuthCodeOption,
) (*oauth2.Token, error) {
	c := oauth2.Config{
		ClientID:     g.Client.ID,
		ClientSecret: g.Client.Secret,
		Endpoint:     oauth2.Endpoint{TokenURL: g.TokenURL, AuthStyle: g.Client.Style},
	}
	if g.Resource != "" {
		parameters = append(parameters, oauth2.SetAuthURLParam("resource", g.Resource))
	}
	return c.Exchange(context.WithValue(ctx, oauth2.HTTPClient, client), "", parameters...)
}

// ended says why the authorization server gives no more tokens for g; "" when err does not say
// that (RFC 6749, section 5.2).
func (g *Grant) ended(err error) string {
	e, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return ""
	}
	said := " " + Said(e, g.secrets()...)
	switch e.ErrorCode {
	case "invalid_grant":
		return "the authorization server no longer accepts the last one" + said
	case "invalid_client", "unauthorized_client":
		return "the authorization server no longer knows the client" + said
	case "invalid_scope", "invalid_target", "unsupported_grant_type", "access_denied":
		return "the authorization server does not renew the last one" + said
	}
	return ""
}

// Said quotes the error of an authorization server, without secrets that its request had.
func Said(e *oauth2.RetrieveError, secrets ...string) string {
	text := "(" + short(hide(e.ErrorCode, secrets...), 64)
	if e.ErrorDescription != "" {
		text += ": " + short(hide(e.ErrorDescription, secrets...), 200)
	}
	return text + ")"
}

// short is a foreign text as a person can read it, on one line.
func short(text string, most int) string {
	return display.Cut(strings.Join(strings.Fields(display.Visible(text)), " "), most)
}

// failure words an error of the exchange that says nothing about g.
func (g *Grant) failure(err error) error {
	e, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		if wrapped, of := errors.AsType[*url.Error](err); of {
			err = wrapped.Err // without the URL, which the message names by its host
		}
		return &retryLater{text: short(hide(err.Error(), g.secrets()...), 300)}
	}
	text := "it answered " + short(e.Response.Status, 64)
	if e.ErrorCode != "" {
		text += " " + Said(e, g.secrets()...)
	}
	return &retryLater{text, retryAfter(e.Response)}
}

// retryAfter returns the time that a response asks to wait, of at most an hour.
func retryAfter(r *http.Response) time.Duration {
	header := strings.TrimSpace(r.Header.Get("Retry-After"))
	wait := time.Duration(0)
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = time.Until(at)
	}
	return max(0, min(wait, time.Hour))
}
