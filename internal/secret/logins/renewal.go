package logins

import (
	"context"
	"errors"
	"time"

	"github.com/exthost/exthost/protocol"
)

// renewal is one renewal of a token; concurrent callers share it.
type renewal struct {
	done  chan struct{} // closed once the fields below are set
	token string
	err   error
}

// renewLocked joins the current renewal or starts one. Shortly after a failed renewal it returns that error
// instead.
func (l *Login) renewLocked() (*renewal, error) {
	switch {
	case l.renewal != nil:
		return l.renewal, nil
	case l.grant.Ended != "":
		return nil, l.needed(l.grant.Ended)
	case time.Now().Before(l.rest):
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
		l.rest, l.failed, r.err = time.Now().Add(fault.RetryAfter), fault, fault
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
