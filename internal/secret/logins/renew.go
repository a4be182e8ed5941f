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

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/protocol"
)

// retryLater is a temporary error of the authorization server.
type retryLater struct {
	text  string
	after time.Duration // from Retry-After; 0 without one
}

func (e *retryLater) Error() string { return e.text }

// renew returns g with a new access token. If g's token is no longer before, because another program has renewed it,
// renew returns g unchanged. If the authorization server refuses to renew the grant, the result has Ended set. path
// is the file of g.
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
	now := time.Now() // before the exchange, so that the lifetime is not overestimated
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

// rewrite checks that the file of a grant can be written, by writing it unchanged. Without the check, a full disk
// would lose the new refresh token after the server has invalidated the old one.
func rewrite(path string) error {
	data, err := os.ReadFile(path)
	if err == nil {
		err = file.WritePrivate(path, data)
	}
	if err != nil {
		return fmt.Errorf("another token could not be stored: %w", err)
	}
	return nil
}

// hide removes secrets from a text of the authorization server.
func hide(text string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return text
}

// secrets returns the secrets in g that the authorization server may quote.
func (g *Grant) secrets() []string { return []string{g.Refresh, g.Access, g.Client.Secret} }

// exchange requests tokens at the token endpoint of g.
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

// ended returns why the authorization server will not renew g any more, or "" if err does not mean that (RFC
// 6749, section 5.2).
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

// Said formats an error of the authorization server, without secrets.
func Said(e *oauth2.RetrieveError, secrets ...string) string {
	text := "(" + short(hide(e.ErrorCode, secrets...), 64)
	if e.ErrorDescription != "" {
		text += ": " + short(hide(e.ErrorDescription, secrets...), 200)
	}
	return text + ")"
}

// short makes a foreign text printable, on one line that is cut to most bytes.
func short(text string, most int) string {
	return display.Cut(strings.Join(strings.Fields(display.Visible(text)), " "), most)
}

// failure formats an error after which g may still be renewed.
func (g *Grant) failure(err error) error {
	e, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		if wrapped, of := errors.AsType[*url.Error](err); of {
			err = wrapped.Err // drop the URL; the message names its host
		}
		return &retryLater{text: short(hide(err.Error(), g.secrets()...), 300)}
	}
	text := "it answered " + short(e.Response.Status, 64)
	if e.ErrorCode != "" {
		text += " " + Said(e, g.secrets()...)
	}
	return &retryLater{text, retryAfter(e.Response)}
}

// retryAfter returns the delay in Retry-After, at most an hour.
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

// renewal is one renewal of a token; concurrent callers share it.
type renewal struct {
	done  chan struct{} // closed once the fields below are set
	token string
	err   error
}

// renewLocked joins the current renewal or starts one. Shortly after a failed renewal it returns the error of that
// renewal instead.
func (l *Login) renewLocked() (*renewal, error) {
	switch {
	case l.renewal != nil:
		return l.renewal, nil
	case l.grant.Ended != "":
		return nil, l.needed(l.grant.Ended)
	case time.Now().Before(l.retryAt):
		return nil, l.failed
	}
	// accessLocked must be called now: another program may renew the token before run begins
	r, before := &renewal{done: make(chan struct{})}, l.accessLocked()
	if !l.store.renewals.Go(func() { l.run(r, before) }) {
		return nil, protocol.Errorf(protocol.ShuttingDown, "the host is closing")
	}
	l.renewal = r
	return r, nil
}

// wait returns the outcome of the renewal. If ctx ends first, the renewal continues, because its response may
// contain the only valid refresh token.
func (r *renewal) wait(ctx context.Context) (string, error) {
	select {
	case <-r.done:
		return r.token, r.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Time limit of a renewal, and the pause after a failed one.
const (
	renewalTimeout = 30 * time.Second
	renewalRest    = 5 * time.Second
)

// run renews the token before, and sets the outcome of r.
func (l *Login) run(r *renewal, before string) {
	ctx, cancel := context.WithTimeout(l.store.ctx, renewalTimeout)
	defer cancel()
	var after *Grant
	err := l.store.update(ctx, l.path, func(g *Grant) (*Grant, error) {
		var err error
		after, err = renew(ctx, l.client, l.path, g, before)
		return after, err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(r.done)
	l.renewal = nil
	switch {
	case err != nil:
		fault := protocol.Errorf(protocol.NotReady, "the login at %s could not be renewed: %w", l.issuerLocked(), err)
		fault.RetryAfter = renewalRest
		if retry, ok := errors.AsType[*retryLater](err); ok && retry.after > 0 {
			fault.RetryAfter = retry.after
		}
		l.retryAt, l.failed, r.err = time.Now().Add(fault.RetryAfter), fault, fault
	case after.Ended != "":
		r.err = l.needed(after.Ended)
	default:
		r.token = after.Access
		l.startOverLocked()
	}
	if err == nil {
		l.grant, l.read = after, nil // the next Token reads the file again
	}
}
