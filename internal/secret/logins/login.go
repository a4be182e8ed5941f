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

	"github.com/exthost/exthost/internal/text/shellwords"
	"github.com/exthost/exthost/protocol"
)

// Login gives the access tokens of a place. Many goroutines may use it at once.
type Login struct {
	store  *Store
	place  Place
	path   string // of the file of the grant
	client *http.Client

	mu      sync.Mutex
	grant   *Grant      // as read last; nil: nobody has signed in
	read    fs.FileInfo // of the file that grant was read from; nil: there was none
	renewal *renewal    // that is under way; nil: none is
	rest    time.Time   // until when no renewal is tried, because one has failed
	failed  error       // of that one
	vain    string      // the token that the server has refused just after it was given
	until   time.Time   // until when no other is asked for in place of vain

	need atomic.Pointer[string] // why a person has to sign in, and how; nil: nobody has to
}

// Token returns the access token for a request, renewed when it is about to expire; "" when nobody
// has signed in. The error is a *protocol.Error.
func (l *Login) Token(ctx context.Context) (string, error) {
	l.mu.Lock()
	if err := l.refreshLocked(); err != nil {
		l.mu.Unlock()
		return "", err
	}
	g, now := l.grant, time.Now()
	if l.vain != "" && !now.Before(l.until) { // the server may accept it by now, and else says so again
		l.vain = ""
		l.startOverLocked()
	}
	if g == nil || !g.due(now) || g.Refresh == "" { // without another one the server decides: clocks differ
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
	return g.Access, nil // meanwhile
}

// Renew returns another access token than the one that the server has refused with a challenge, the
// values of its WWW-Authenticate header; "" when the challenge asks for no login. The error, a
// *protocol.Error, says what the user has to do.
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
	case g.Access == l.vain && time.Now().Before(l.until):
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

// Needed says why a person has to sign in, and how; "" as far as is known nobody has to.
func (l *Login) Needed() string {
	if text := l.need.Load(); text != nil {
		return *text
	}
	return ""
}

// Refused returns the error for a token that Renew has given and the server refuses too. No other
// one is asked for at once: it would be refused as well.
func (l *Login) Refused(token string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accessLocked() == token {
		l.vain, l.until = token, time.Now().Add(renewalRest)
	}
	return l.refused()
}

func (l *Login) refused() *protocol.Error {
	return l.needed("the server refuses the token that its authorization server has just given")
}

// needed notes that the user has to sign in, and returns the error that says so. Why may be "".
func (l *Login) needed(why string, flags ...string) *protocol.Error {
	if why != "" {
		why = ", because " + why
	}
	if l.place.Caller != "" {
		flags = append([]string{"--caller", l.place.Caller}, flags...)
	}
	text := "needs login" + why + ": " + shellwords.Join(append([]string{"exthost", "login", l.place.ID}, flags...))
	l.need.Store(&text)
	return protocol.Errorf(protocol.RequirementMissing, "%s", text)
}

func (l *Login) accessLocked() string {
	if l.grant == nil {
		return ""
	}
	return l.grant.Access
}

// refreshLocked reads the grant if its file is another one than before: other programs sign in and
// renew too.
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
	if !same { // one that has only been written anew, by a renewal that failed, changes nothing
		l.startOverLocked()
	}
	return nil
}

// startOverLocked forgets what went wrong with an earlier grant.
func (l *Login) startOverLocked() {
	l.rest, l.failed = time.Time{}, nil
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
