package snapshot

import (
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/status"
)

// OnlyRules returns now with the disabled and allowlist entries of next, and its files, because these entries may
// be in a new one.
func OnlyRules(now, next *config.Config) *config.Config {
	c := *now
	c.Extensions.Disabled, c.Extensions.Allowlist = next.Extensions.Disabled, next.Extensions.Allowlist
	c.Files = next.Files
	return &c
}

// Only restricts the change c from now to p to the extensions of ids and their servers. All others stay as in
// now, even failed ones.
func (p *Plan) Only(now *Plan, c *status.Change, ids []string) {
	other := func(id string) bool {
		owner, _, _ := strings.Cut(id, ".")
		return !slices.Contains(ids, id) && !slices.Contains(ids, owner)
	}
	for _, id := range slices.Concat(c.Added, c.Changed, c.Removed) {
		if !other(id) {
			continue
		}
		if before := now.Extensions[id]; before != nil {
			p.Keep(before)
		} else {
			delete(p.Extensions, id)
			p.Order = slices.DeleteFunc(p.Order, func(o string) bool { return o == id })
		}
	}
	p.Destinations, p.Policies, p.Hooks = now.Destinations, now.Policies, now.Hooks
	c.Destinations, c.Policies, c.Restart = []string{}, []string{}, []string{}
	for _, list := range []*[]string{&c.Added, &c.Changed, &c.Removed, &c.Retried} {
		*list = slices.DeleteFunc(*list, other)
	}
	c.Files = slices.DeleteFunc(c.Files, func(file string) bool {
		id, _, _ := strings.Cut(file, "/")
		return other(id)
	})
}
