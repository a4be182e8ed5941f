package snapshot

import (
	"cmp"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/host/bridge"
	"github.com/exthost/exthost/internal/host/permit"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/listing/skills"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Follow reuses the unchanged units of now in p, and those whose new build cannot be used. It returns the
// difference of p from now. atOpen is the configuration that the host was opened with.
func (p *Plan) Follow(now *Plan, atOpen *config.Config) *status.Change {
	c := &status.Change{
		Added:    []string{},
		Changed:  []string{},
		Removed:  []string{},
		Kept:     []status.KeptBuild{},
		Retried:  []string{},
		Restart:  NeedRestart(atOpen, p.Config),
		Failed:   []protocol.Diagnostic{},
		Policies: p.Policies.Changed(now.Policies),
		Clients:  []string{},
		Files:    []string{},
		Skills:   []string{},
		Rules:    append([]string{}, config.DiffRules(now.Config.Rules(), p.Config.Rules())...),
	}
	p.followDestinations(now, c)
	for _, x := range p.Policies.Processes {
		if now.Has(x) && x.HasFailed() {
			c.Retried = append(c.Retried, x.ID())
		}
	}
	for _, id := range p.Order {
		switch before, x := now.Extensions[id], p.Extensions[id]; {
		case before == nil:
			c.Added = append(c.Added, id)
		case before.Source.Sum == x.Source.Sum:
			p.Extensions[id] = before
			if before.HasFailed() {
				c.Retried = append(c.Retried, id)
			}
		case p.keepServer(before, x, c):
		default:
			c.Changed = append(c.Changed, id)
			for _, name := range x.Source.Differs(before.Source, x.Candidate.Path) {
				c.Files = append(c.Files, id+"/"+name)
			}
		}
	}
	for x := range now.Local {
		if p.Extensions[x.ID()] != nil {
			continue
		}
		if kept := p.unusable(x); kept != nil {
			p.Keep(x)
			p.keepSkills(now, x.ID())
			c.Kept = append(c.Kept, *kept)
		} else {
			c.Removed = append(c.Removed, x.ID())
		}
	}
	c.Skills = slices.DeleteFunc(p.OtherSkills(now),
		func(id string) bool { return slices.Contains(c.Added, id) || slices.Contains(c.Changed, id) })
	return c
}

// keepServer keeps a server that has the name of its plugin, if an error in mcp.json is why the plugin x has no server
// any more. It reports whether it did. Servers of other names are kept as other extensions are.
func (p *Plan) keepServer(before, x *unit.Extension, c *status.Change) bool {
	server := func(x *unit.Extension) bool { return x.Candidate.Manifest.Transport.Kind != manifest.KindExec }
	if !x.Candidate.Portable() || server(x) || !server(before) {
		return false
	}
	kept := p.unusable(before)
	if kept != nil {
		p.Keep(before)
		c.Kept = append(c.Kept, *kept)
	}
	return kept != nil
}

func (p *Plan) followDestinations(now *Plan, c *status.Change) {
	c.Destinations = []string{}
	for name, d := range p.Destinations {
		before := now.Destinations[name]
		if before == nil || before.Source.Sum != d.Source.Sum || !reflect.DeepEqual(before.Config, d.Config) {
			c.Destinations = append(c.Destinations, name)
			continue
		}
		p.Destinations[name] = before
		if before.Failure() != nil {
			c.Retried = append(c.Retried, name)
		}
	}
	for name := range now.Destinations {
		if p.Destinations[name] == nil {
			c.Destinations = append(c.Destinations, name)
		}
	}
	slices.Sort(c.Destinations)
}

// NeedRestart returns the sections of now that are not in force in a host opened with atOpen, because a host reads them
// only at Open.
func NeedRestart(atOpen, now *config.Config) []string {
	list := []string{}
	was, is := atOpen.Server, now.Server
	was.Clients, is.Clients = nil, nil // these take effect without a restart
	for _, s := range []struct {
		key           string
		before, after any
	}{
		{"server", was, is}, {"log", atOpen.Log, now.Log}, {"audit", atOpen.Audit, now.Audit},
		{"secrets", atOpen.Secrets, now.Secrets}, {"otel", atOpen.OTel, now.OTel},
		{"cluster", atOpen.Cluster, now.Cluster},
	} {
		if !reflect.DeepEqual(s.before, s.after) {
			list = append(list, s.key)
		}
	}
	return list
}

// unusable returns why the new build of x cannot be used: problems with its manifest or the servers beside the
// manifest, or lack of the user's consent. It returns nil if x was removed on purpose.
func (p *Plan) unusable(x *unit.Extension) *status.KeptBuild {
	var wrong []string
	path, sidecar := x.Candidate.Path, ""
	if x.Candidate.Portable() {
		sidecar = filepath.Join(filepath.Dir(path), agentplugin.ServersName)
	} else if x.Candidate.Owner != "" {
		sidecar = filepath.Join(filepath.Dir(path), manifest.SidecarName)
	}
	for _, d := range p.Diagnostics {
		if (d.Path == path || d.Path == sidecar) && d.Level == protocol.LevelError || discovery.Hides(d, path) {
			wrong = append(wrong, d.String())
		}
	}
	if len(wrong) > 0 {
		return &status.KeptBuild{ID: x.ID(), Reason: strings.Join(wrong, "\n")}
	}
	for _, c := range p.Skipped {
		if c.ID != x.ID() || c.Path != path {
			continue
		}
		d := untrusted(c, p.Diagnostics)
		switch {
		case d == nil:
			return &status.KeptBuild{ID: c.ID, Reason: skipReason(c, p.Diagnostics)}
		case d.Code != permit.CodeRevoked:
			return &status.KeptBuild{ID: c.ID, Reason: skipReason(c, p.Diagnostics), Next: d.Hint}
		}
	}
	return nil
}

// skipReason returns all reasons why c cannot run. It compares paths too, because another file may have the same id.
func skipReason(c discovery.Candidate, diags []protocol.Diagnostic) string {
	var reasons []string
	for _, d := range diags {
		if d.Extension == c.ID && d.Path == c.Path && d.Level != protocol.LevelInfo {
			reasons = append(reasons, d.Message)
		}
	}
	return strings.Join(reasons, "; ")
}

// untrusted returns the diagnostic that c lacks the user's consent, nil if it is skipped for another reason.
func untrusted(c discovery.Candidate, diags []protocol.Diagnostic) *protocol.Diagnostic {
	i := slices.IndexFunc(diags, func(d protocol.Diagnostic) bool {
		return d.Extension == c.ID && d.Path == c.Path &&
			(d.Code == permit.CodeUntrusted || d.Code == permit.CodeRevoked)
	})
	if i < 0 {
		return nil
	}
	return &diags[i]
}

// Keep puts an extension or a destination of an earlier plan back into p.
func (p *Plan) Keep(t Target) {
	switch t := t.(type) {
	case *bridge.Destination:
		p.Destinations[t.ID()] = t
	case *unit.Extension:
		id := t.ID()
		if p.Extensions[id] == nil {
			p.Order = append(p.Order, id)
		}
		p.Extensions[id] = t
		p.Skipped = slices.DeleteFunc(p.Skipped, func(c discovery.Candidate) bool { return c.ID == id })
		slices.SortFunc(p.Order, func(a, b string) int {
			return cmp.Or(cmp.Compare(p.Extensions[a].Candidate.RootIndex, p.Extensions[b].Candidate.RootIndex),
				cmp.Compare(a, b))
		})
	}
}

// keepSkills puts the skills that an extension has in now back into p.
func (p *Plan) keepSkills(now *Plan, id string) {
	delete(p.Skills, id)
	if before := now.Skills[id]; before != nil {
		if p.Skills == nil {
			p.Skills = make(map[string]*skills.Served)
		}
		p.Skills[id] = before
	}
}

// OnlyRules returns now with the disabled and allowlist entries of next, and with the list of files of next, because
// the entries may be in a new file.
func OnlyRules(now, next *config.Config) *config.Config {
	c := *now
	c.Extensions.Disabled, c.Extensions.Allowlist = next.Extensions.Disabled, next.Extensions.Allowlist
	c.Files = next.Files
	return &c
}

// Only restricts c, the change from now to p, to the extensions of ids and their servers. All others stay as in now,
// even failed ones.
func (p *Plan) Only(now *Plan, c *status.Change, ids []string) {
	other := func(id string) bool {
		owner, _ := manifest.OwnerOf(id)
		return !slices.Contains(ids, id) && !slices.Contains(ids, owner)
	}
	for _, id := range slices.Concat(c.Added, c.Changed, c.Removed, c.Skills) {
		if !other(id) {
			continue
		}
		p.keepSkills(now, id)
		if before := now.Extensions[id]; before != nil {
			p.Keep(before)
		} else {
			delete(p.Extensions, id)
			p.Order = slices.DeleteFunc(p.Order, func(o string) bool { return o == id })
		}
	}
	p.Destinations, p.Policies, p.Hooks = now.Destinations, now.Policies, now.Hooks
	c.Destinations, c.Policies, c.Restart = []string{}, []string{}, []string{}
	for _, list := range []*[]string{&c.Added, &c.Changed, &c.Removed, &c.Retried, &c.Skills} {
		*list = slices.DeleteFunc(*list, other)
	}
	c.Files = slices.DeleteFunc(c.Files, func(file string) bool {
		id, _, _ := strings.Cut(file, "/")
		return other(id)
	})
}
