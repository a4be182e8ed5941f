// Package trust asks the user what may run in the working directory.
package trust

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/supply/consent"
)

// BeforeServe asks the user what may run in the working directory. If it cannot ask, untrusted extensions do not run.
// It returns an error if no extension may run, or if the configuration is not trusted.
func BeforeServe(ctx context.Context, c *console.Console, cfg *config.Config, origins *config.Origins, interactive bool,
) error {
	if cfg.Extensions.Trust != config.TrustAsk {
		return nil
	}
	p, err := Find(ctx, c, cfg, origins)
	if err != nil || len(p.Items) == 0 {
		return err
	}
	if interactive && c.Interactive() {
		ok, err := p.ask(ctx, c, origins)
		switch {
		case errors.Is(err, errElsewhere):
			fmt.Fprintln(c.Err, "agreed to elsewhere, in another terminal or on the dashboard")
			return nil
		case err != nil:
			return err
		case ok:
			return p.Accept(p.Items)
		case p.trusted == 0 || p.Items[0].agreed == nil:
			return &console.Error{Code: console.ExitDenied, Text: "not trusted, and not run", Hint: "exthost trust"}
		}
		return nil
	}
	if p.trusted == 0 || p.Items[0].agreed == nil {
		return &console.Error{
			Code: console.ExitDenied,
			Text: fmt.Sprintf("%s is not trusted, and nothing was started: %s", hosts.Here(),
				console.Safe(Names(p.Items))),
			Hint: "exthost trust, which shows what would run; or --trust off, which runs it all",
		}
	}
	return nil
}

// errElsewhere ends a question that the user has answered in another terminal or on the dashboard.
var errElsewhere = errors.New("agreed to elsewhere")

// ask is [Ask] until the user has agreed elsewhere: then the error is errElsewhere.
func (p *Pending) ask(ctx context.Context, c *console.Console, origins *config.Origins) (bool, error) {
	ctx, end := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		if p.awaitTrust(ctx, c, origins) {
			end(errElsewhere)
		}
	})
	defer watch.Wait()
	defer end(nil)
	return Ask(ctx, c, p.Items)
}

// trustPoll is how often awaitTrust looks for an answer.
const trustPoll = 500 * time.Millisecond

// awaitTrust waits until the user trusts all that was pending. It returns false if ctx ends before.
func (p *Pending) awaitTrust(ctx context.Context, c *console.Console, origins *config.Origins) bool {
	tick := time.NewTicker(trustPoll)
	defer tick.Stop()
	for seen := (time.Time{}); ; {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		now := p.k.Store.Modified()
		if now.Equal(seen) {
			continue
		}
		seen = now
		if left, err := Find(ctx, c, p.cfg, origins); err == nil && len(left.Items) == 0 {
			return true
		}
	}
}

// Again asks the user about everything in the working directory that is not trusted, after a command failed because of
// that. It reports whether the command can be tried again.
func Again(ctx context.Context, c *console.Console, failed error) (bool, error) {
	if _, ok := errors.AsType[hosts.NotTrusted](failed); !ok || !c.Interactive() {
		return false, nil
	}
	cfg, origins, err := hosts.Load(c)
	if err != nil || cfg.Extensions.Trust != config.TrustAsk {
		return false, err
	}
	p, err := Find(ctx, c, cfg, origins)
	if err != nil || len(p.Items) == 0 {
		return false, err
	}
	if yes, err := Ask(ctx, c, p.Items); err != nil || !yes {
		return false, err
	}
	return true, p.Accept(p.Items)
}

// Names lists the items for people.
func Names(items []*Item) string {
	var names []string
	for _, i := range items {
		if i.agreed == nil {
			names = append(names, "its configuration ("+i.place+")")
		} else {
			names = append(names, i.Names...)
		}
	}
	return consent.Some(names)
}
