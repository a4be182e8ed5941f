package secret

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// renew prints that a secret is stored. Before, the running host of the directory reloads, and starts again what is
// given the secret: a process and a connection keep the value that they began with.
func renew(ctx context.Context, c *console.Console, cfg *config.Config, name string) error {
	did := name + " is stored"
	r, err := hosts.Find(ctx)
	if err != nil || !readsStore(ctx, r, cfg) {
		c.Tell(did + ", and counts from the next start of what is given it")
		return nil
	}
	s, err := r.Status(ctx)
	if err != nil {
		return fmt.Errorf("%s, but the running host (pid %d) did not apply it: %w", did, r.Info.PID, err)
	}
	var change status.Change
	var failed error
	if r.Info.Scope == hosts.Scope(c, cfg) { // else it does not read the files of this command
		failed = r.Post(ctx, "/api/v1/reload", nil, &change)
	}
	for _, d := range change.Failed {
		failed = errors.Join(failed, errors.New(console.Nearby(d).String()))
	}
	fresh := slices.Concat(change.Added, change.Changed, change.Removed, change.Retried, change.Destinations)
	users := usersOf(s, name)
	for _, id := range users {
		if slices.Contains(fresh, id) {
			continue
		}
		if err := r.Post(ctx, "/api/v1/extensions/"+url.PathEscape(id)+"/restart", nil, nil); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s does not start again: %s", id, protocol.Reason(err)))
		}
	}
	if failed != nil {
		return &console.Error{
			Code:  console.ExitExtension,
			Text:  did + ", but " + console.NearbyText(failed.Error()),
			Hint:  "exthost status",
			Cause: failed,
		}
	}
	did += fmt.Sprintf("; the running host (pid %d) has applied it", r.Info.PID)
	if len(users) > 0 {
		did += " and started again " + strings.Join(users, ", ")
	}
	c.Tell(console.Safe(did))
	return nil
}

// readsStore reports whether a host reads the store that cfg selects.
func readsStore(ctx context.Context, r *hosts.Running, cfg *config.Config) bool {
	var theirs struct {
		Secrets struct{ Provider, Path, Identity string }
	}
	mine := cfg.Secrets
	return r.Get(ctx, "/api/v1/config", &theirs) == nil && theirs.Secrets.Provider == mine.Provider &&
		theirs.Secrets.Path == mine.Path && theirs.Secrets.Identity == mine.Identity
}

// usersOf returns what is given a secret: extensions, destinations and processes of policies.
func usersOf(s status.Status, name string) (ids []string) {
	add := func(x *status.Extension) {
		if slices.Contains(x.Secrets, name) {
			ids = append(ids, x.ID)
		}
	}
	for i := range s.Extensions {
		add(&s.Extensions[i])
	}
	for i := range s.Destinations {
		add(&s.Destinations[i].Extension)
	}
	for _, p := range s.Policies {
		if p.Process != nil {
			add(p.Process)
		}
	}
	return ids
}
