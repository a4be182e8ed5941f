package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// ready tells scripts whether the running host can serve.
func ready(ctx context.Context, c *console.Console, names []string, wait time.Duration) error {
	stop := c.Progress(func() string { return "waits until the host is ready" })
	err := awaitReady(ctx, names, wait)
	stop()
	r, missing := hosts.Find(ctx)
	absent, none := errors.AsType[*console.Error](missing)
	if none && c.Host == "" && console.ExitCode(err) == console.ExitNotYet {
		return cmp.Or(c.Print(verdictDocument(c, noHost(absent))), err)
	}
	if r == nil || err != nil && console.ExitCode(err) < console.ExitNotYet {
		return err
	}
	s, _, failed := r.StatusOnDisk(ctx, c)
	if failed != nil {
		return cmp.Or(err, failed)
	}
	printed := c.Print(verdictDocument(c, s.Verdict))
	if err == nil && names == nil && s.Verdict.Word == status.NoCallPasses {
		worst := s.Verdict.Causes[0]
		err = &console.Error{Code: console.ExitBlocked, Text: "blocked: " + worst.Text, Hint: worst.Next}
	}
	if err == nil && names == nil {
		for _, o := range s.Verdict.Causes[min(1, len(s.Verdict.Causes)):] {
			c.Warn("%s; %s", console.Safe(console.NearbyText(o.Text)), console.Safe(o.Next))
		}
	}
	return cmp.Or(err, printed)
}

// readyPoll is the interval at which a host that is not ready is asked again.
const readyPoll = 200 * time.Millisecond

// awaitReady returns nil once the host is ready. Otherwise it returns why the host is not ready: immediately if waiting
// does not help, else after wait.
func awaitReady(ctx context.Context, names []string, wait time.Duration) error {
	until := time.Now().Add(wait)
	for {
		err := isReady(ctx, names)
		if console.ExitCode(err) != console.ExitNotYet || !time.Now().Before(until) {
			return err
		}
		select {
		case <-time.After(readyPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func isReady(ctx context.Context, names []string) error {
	r, err := hosts.Find(ctx)
	if e, ok := errors.AsType[*console.Error](err); ok && e.Code == console.ExitNotFound {
		e.Code = console.ExitNotYet
	}
	if err != nil {
		return err
	}
	s, err := r.Status(ctx)
	if err != nil {
		return err
	}
	return verdict(s, names)
}

// verdict returns why the host, or one of the tools, is not ready; nil if all are. Permanent reasons come before
// temporary ones.
func verdict(s status.Status, names []string) error {
	var worst *console.Error
	obstacles := s.Obstacles()
	if names != nil { // other extensions do not matter
		obstacles = slices.DeleteFunc(obstacles,
			func(o status.Obstacle) bool { return !o.Blocked && !strings.HasPrefix(o.ID, status.PolicyPrefix) })
	}
	for _, name := range names {
		obstacles = append(obstacles, toolObstacles(s, name)...)
	}
	for _, o := range obstacles {
		e := &console.Error{Code: console.ExitNotYet, Text: "not ready yet: " + o.Text, Hint: o.Next}
		switch {
		case o.ID == "" && o.Blocked:
			e.Code, e.Text = console.ExitUnknownTool, o.Text
		case o.Blocked:
			e.Code, e.Text = console.ExitBlocked, "blocked: "+o.Text
		}
		if worst == nil || e.Code > worst.Code {
			worst = e
		}
	}
	if worst == nil {
		return nil
	}
	return worst
}

// toolObstacles returns why a tool cannot be called. An obstacle without an id means that there is no such tool.
func toolObstacles(s status.Status, name string) []status.Obstacle {
	for _, x := range s.Extensions {
		switch {
		case slices.Contains(x.Withheld, name):
			return []status.Obstacle{
				{
					ID:      x.ID,
					Blocked: true,
					Text:    "tool " + name + " is held back, because it has changed since it was pinned",
					Next:    "exthost policy pins",
				},
			}
		case slices.Contains(x.Tools, name):
			return callable(x, name)
		}
	}
	for _, x := range s.Extensions {
		if !tools.MayOwn(x.ID, name) || x.State == string(supervisor.Ready) || x.State == string(supervisor.Idle) {
			continue
		}
		if o := callable(x, name); len(o) > 0 {
			return o
		}
	}
	return []status.Obstacle{{Blocked: true, Text: hosts.UnknownTool(s, name).Error(), Next: "exthost tools list"}}
}

// callable returns what keeps the tool of an extension from being called.
func callable(x status.Extension, name string) []status.Obstacle {
	one := status.Status{Required: []string{x.ID}, Extensions: []status.Extension{x}}
	list := one.Obstacles()
	for i := range list {
		list[i].Text = fmt.Sprintf("tool %s cannot be called: %s", name, list[i].Text)
	}
	return list
}
