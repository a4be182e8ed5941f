package logins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/protocol"
)

// Login provides the access tokens of a place. It is safe for concurrent use.
type Login struct {
	store  *Store
	place  Place
	path   string // file of the grant
	client *http.Client

	mu           sync.Mutex
	grant        *Grant      // as last read; nil if the user is not signed in
	read         fs.FileInfo // file state when grant was read; nil without a file
	renewal      *renewal    // running renewal, or nil
	retryAt      time.Time   // no renewal before this time, because the last one failed
	failed       error       // error of the failed renewal
	refusedToken string      // token that the server refused directly after its renewal
	refusedUntil time.Time   // refusedToken is not renewed before this time

	need atomic.Pointer[string] // message that the user has to sign in; nil if not needed
}

// Token returns the access token for a request, or "" if the user is not signed in. It renews a token that is
// about to expire. The error is a *protocol.Error.
func (l *Login) Token(ctx context.Context) (string, error) {
	l.mu.Lock()
	if err := l.refreshLocked(); err != nil {
		l.mu.Unlock()
		return "", err
	}
	g, now := l.grant, time.Now()
	if l.refusedToken != "" && !now.Before(l.refusedUntil) { // the server may accept the token by now
		l.refusedToken = ""
		l.startOverLocked()
	}
	if g == nil || !g.due(now) || g.Refresh == "" { // without a refresh token the server decides, because clocks differ
		defer l.mu.Unlock()
		return l.accessLocked(), nil
	}
	r, err := l.renewLocked()
	l.mu.Unlock()
	if err == nil && g.expired(now) {
		return r.wait(ctx)
	}
	if err != nil && g.expired(now) {
		return "", err
	}
	return g.Access, nil // usable during the renewal
}

// Renew returns a new access token after the server has refused one. challenge are the WWW-Authenticate headers of
// that response. The result is "" if the headers do not ask for a login. The error is a *protocol.Error that tells
// the user what to do.
func (l *Login) Renew(ctx context.Context, refused string, challenge []string) (string, error) {
	wanted, isLogin := parse(challenge)
	switch {
	case wanted.insufficient:
		return "", l.needed("the server wants more than the last one allows"+wanted.text(), wanted.flags()...)
	case !isLogin && refused == "":
		return "", nil
	}
	l.mu.Lock()
	if err := l.refreshLocked(); err != nil {
		l.mu.Unlock()
		return "", err
	}
	switch g := l.grant; {
	case g == nil && len(challenge) == 0:
		l.mu.Unlock()
		return "", l.needed("the server wants credentials and does not say which; token_env, token_file and headers " +
			"under [transport] are others")
	case g == nil:
		l.mu.Unlock()
		return "", l.needed("")
	case g.Access != refused:
		l.mu.Unlock()
		return g.Access, nil
	case g.Access == l.refusedToken && time.Now().Before(l.refusedUntil):
		l.mu.Unlock()
		return "", l.refused()
	case g.Ended != "":
		l.mu.Unlock()
		return "", l.needed(g.Ended)
	case g.Refresh == "":
		l.mu.Unlock()
		return "", l.needed("the server no longer accepts the last one, which cannot be renewed")
	}
	r, err := l.renewLocked()
	l.mu.Unlock()
	if err != nil {
		return "", err
	}
	return r.wait(ctx)
}

// Needed returns why and how the user has to sign in, or "" if that is not known to be necessary.
func (l *Login) Needed() string {
	if text := l.need.Load(); text != nil {
		return *text
	}
	return ""
}

// Refused returns the error for a token that was refused directly after Renew returned it. The token is not
// renewed again at once, since a new one would be refused too.
func (l *Login) Refused(token string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accessLocked() == token {
		l.refusedToken, l.refusedUntil = token, time.Now().Add(renewalRest)
	}
	return l.refused()
}

func (l *Login) refused() *protocol.Error {
	return l.needed("the server refuses the token that its authorization server has just given")
}

// needed records that the user has to sign in, and returns the error. why may be "".
func (l *Login) needed(why string, flags ...string) *protocol.Error {
	if why != "" {
		why = ", because " + why
	}
	if l.place.Caller != "" {
		flags = append([]string{"--caller", l.place.Caller}, flags...)
	}
	command := append([]string{"exthost", "secret", "login", l.place.ID}, flags...)
	text := "needs login" + why + ": " + text.ShellLine(command)
	l.need.Store(&text)
	return protocol.Errorf(protocol.RequirementMissing, "%s", text)
}

func (l *Login) accessLocked() string {
	if l.grant == nil {
		return ""
	}
	return l.grant.Access
}

// refreshLocked reads the grant again if its file has changed, because other programs also sign in and renew.
func (l *Login) refreshLocked() error {
	info, err := os.Lstat(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		l.grant, l.read = nil, nil
		return nil
	}
	if err == nil && l.read != nil && os.SameFile(info, l.read) && info.ModTime().Equal(l.read.ModTime()) &&
		info.Size() == l.read.Size() {
		return nil
	}
	var g *Grant
	if err == nil {
		g, err = l.store.read(l.path)
	}
	if err != nil {
		return protocol.Errorf(protocol.RequirementMissing, "the login: %w", err)
	}
	same := g != nil && l.grant != nil && g.Access == l.grant.Access && g.Refresh == l.grant.Refresh &&
		g.Ended == l.grant.Ended
	l.grant, l.read = g, info
	if !same { // a failed renewal rewrites the file with the same grant
		l.startOverLocked()
	}
	return nil
}

// startOverLocked clears errors of an earlier grant.
func (l *Login) startOverLocked() {
	l.retryAt, l.failed = time.Time{}, nil
	l.need.Store(nil)
}

// issuerLocked returns the authorization server for a message.
func (l *Login) issuerLocked() string {
	if l.grant == nil {
		return "the authorization server"
	}
	if u, err := url.Parse(l.grant.Issuer); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host
	}
	return fmt.Sprintf("%q", l.grant.Issuer)
}
