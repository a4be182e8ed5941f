package logins

import (
	"context"
	"errors"
	"time"

	"github.com/exthost/exthost/protocol"
)

// renewal is one renewal of a token. Everybody who wants a token while it runs gets its outcome.
type renewal struct {
	done  chan struct{} // closed once the fields below are set
	token string
	err   error
}

// renewLocked joins the renewal that is under way, or begins one. The error is that of one that
// failed a moment ago.
func (l *Login) renewLocked() (*renewal, error) {
	switch {
	case l.renewal != nil:
		return l.renewal, nil
	case l.grant.Ended != "":
		return nil, l.needed(l.grant.Ended)
	case time.Now().Before(l.rest):
		return nil, l.failed
	}
	// of now: another program may have renewed it before run begins
	r, before := &renewal{done: make(chan struct{})}, l.accessLocked()
	if !l.store.renewals.Go(func() { l.run(r, before) }) {
		return nil, protocol.Errorf(protocol.ShuttingDown, "the host is closing")
	}
	l.renewal = r
	return r, nil
}

// wait waits until the renewal has ended. It goes on when ctx ends: its answer may be the only one
// with the next token.
func (r *renewal) wait(ctx context.Context) (string, error) {
	select {
	case <-r.done:
		return r.token, r.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// The time limit of a renewal, and the time after a failed one in which none is tried.
const (
	renewalTimeout = 30 * time.Second
	renewalRest    = 5 * time.Second
)

// run renews the token, which was before, and sets the outcome of r.
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
		l.rest, l.failed, r.err = time.Now().Add(fault.RetryAfter), fault, fault
	case after.Ended != "":
		r.err = l.needed(after.Ended)
	default:
		r.token = after.Access
		l.startOverLocked()
	}
	if err == nil {
		l.grant, l.read = after, nil // the file tells its version with the next request
	}
}
