package hosts

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/local/daemon"
	"github.com/exthost/exthost/status"
)

// All returns the hosts of this directory, or the one that --host selects; nil if they cannot be found. A client on
// stdio with another environment or other flags runs a host of its own, beside the one that [Find] returns.
func All(ctx context.Context) (all []*Running) {
	if choiceOf(ctx).host != "" {
		if r, err := Find(ctx); err == nil {
			all = append(all, r)
		}
		return all
	}
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return nil
	}
	found, _ := daemon.FindAll(ctx, state) // the hosts that answer
	for _, info := range found {
		all = append(all, running(info))
	}
	return all
}

// OverHTTP returns the address of a host of this directory that serves HTTP; "" if there is none.
func OverHTTP(ctx context.Context) (address string) {
	for _, r := range All(ctx) {
		if strings.HasPrefix(r.Info.Serves, "http") {
			return r.Info.Serves
		}
	}
	return ""
}

// Connected holds the clients of all hosts of a directory.
type Connected struct {
	Clients []status.Client
	Named   []status.NamedClient // sorted by name; LastUsed is the latest of all hosts
}

// Add adds the clients of one host.
func (c *Connected) Add(s status.Status) {
	c.Clients = append(c.Clients, s.Clients...)
	for _, n := range s.NamedClients {
		at, ok := slices.BinarySearchFunc(c.Named, n,
			func(a, b status.NamedClient) int { return cmp.Compare(a.Name, b.Name) })
		switch {
		case !ok:
			c.Named = slices.Insert(c.Named, at, n)
		case n.LastUsed != nil && (c.Named[at].LastUsed == nil || c.Named[at].LastUsed.Before(*n.LastUsed)):
			c.Named[at].LastUsed = n.LastUsed
		}
	}
}

// AddAll asks all hosts at the same time and adds their clients. It warns about hosts that do not answer.
func (c *Connected) AddAll(ctx context.Context, con *console.Console, all []*Running) {
	answers, errs := make([]status.Status, len(all)), make([]error, len(all))
	var wg sync.WaitGroup
	for i, r := range all {
		wg.Go(func() { answers[i], errs[i] = r.Status(ctx) })
	}
	wg.Wait()
	for i, r := range all {
		if errs[i] == nil {
			c.Add(answers[i])
		} else {
			con.Warn("the clients of the host with pid %d are not here: %s", r.Info.PID, console.Describe(errs[i]))
		}
	}
}
