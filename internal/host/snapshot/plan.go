// Package snapshot holds the extensions, destinations, policies, tools and hooks in force: immutable, and
// replaced as one.
package snapshot

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/host/bridge"
	"github.com/exthost/exthost/internal/host/given"
	"github.com/exthost/exthost/internal/host/permit"
	"github.com/exthost/exthost/internal/host/policies"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/host/watch"
	"github.com/exthost/exthost/internal/recording/faults"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
)

// Plan is the outcome of a configuration and its search paths: the units that may run, in order, and the
// candidates that may not. It is immutable once it is in force.
type Plan struct {
	Config       *config.Config
	Policies     *policies.Set
	Extensions   map[string]*unit.Extension
	Order        []string              // ids of Extensions, as discovered
	Remote       []*unit.Extension     // extensions that only other nodes have, by id
	Replicas     []*unit.Extension     // extensions of other nodes that this host has too; reached through Extensions
	Reserved     []string              // ids of extensions that other nodes had: their tool names stay reserved
	LeftOut      []protocol.Diagnostic // about shared extensions of other nodes
	Destinations map[string]*bridge.Destination
	Skipped      []discovery.Candidate // found, but cannot run
	Diagnostics  []protocol.Diagnostic // about files
	Hooks        []hooks.Handler       // of the configuration
	Faults       *faults.Injector      // of the configuration; nil: none
	Dirs         []string              // searched directories
}

// Target is an extension or a destination: a unit that serves calls.
type Target interface {
	unit.Runner
	Acquire(ctx context.Context, w unit.Want) (*unit.Instance, func(error), error)
	// LoginOf returns the login used for calls of a caller, nil if none.
	LoginOf(caller string) runtime.Login
}

// Target returns the extension or destination with an id, nil if none.
func (p *Plan) Target(id string) Target {
	if x := p.Extensions[id]; x != nil {
		return x
	}
	if d := p.Destinations[id]; d != nil {
		return d
	}
	if i := slices.IndexFunc(p.Remote, func(x *unit.Extension) bool { return x.ID() == id }); i >= 0 {
		return p.Remote[i]
	}
	return nil
}

// Unit returns the extension, destination or policy process with an id, nil if none.
func (p *Plan) Unit(id string) unit.Runner {
	for _, x := range p.Policies.Processes {
		if x.ID() == id {
			return x
		}
	}
	if t := p.Target(id); t != nil {
		return t
	}
	return nil
}

// Has reports whether u is a unit of the plan. A kept extension may have the id of a destination.
func (p *Plan) Has(u unit.Runner) bool {
	switch u := u.(type) {
	case *unit.Extension:
		return p.Extensions[u.ID()] == u || slices.Contains(p.Remote, u) || slices.Contains(p.Replicas, u)
	case *bridge.Destination:
		return p.Destinations[u.ID()] == u
	case *policies.Process:
		return slices.Contains(p.Policies.Processes, u)
	}
	return false
}

// Units returns every unit: policy processes, extensions, destinations.
func (p *Plan) Units() (list []unit.Runner) {
	for _, x := range p.Policies.Processes {
		list = append(list, x)
	}
	for x := range p.Ordered {
		list = append(list, x)
	}
	for _, x := range p.Replicas {
		list = append(list, x)
	}
	for d := range p.OrderedDestinations {
		list = append(list, d)
	}
	return list
}

// Variables returns the names of the environment variables that the plan depends on, sorted: those that the
// configuration refers to or passes, and those that manifests state, also manifests whose extension lacks one.
func (p *Plan) Variables() []string {
	names := slices.Concat(p.Config.Variables, p.Config.Extensions.Env.Pass)
	asVariables := p.Config.Secrets.Provider == config.SecretsEnv // each stored secret is a variable
	add := func(c *discovery.Candidate) {
		if names = append(names, stated(c.Manifest)...); asVariables {
			names = append(names, given.Asked(p.Config, c)...)
		}
	}
	for x := range p.Ordered {
		add(&x.Candidate)
	}
	for i := range p.Skipped {
		if p.Skipped[i].Manifest != nil {
			add(&p.Skipped[i])
		}
	}
	if asVariables {
		for _, use := range p.Config.SecretUses {
			names = append(names, use.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Ordered yields the extensions as discovered, then those that only other nodes have.
func (p *Plan) Ordered(yield func(*unit.Extension) bool) {
	for x := range p.Local {
		if !yield(x) {
			return
		}
	}
	for _, x := range p.Remote {
		if !yield(x) {
			return
		}
	}
}

// Local yields the extensions of this host as discovered.
func (p *Plan) Local(yield func(*unit.Extension) bool) {
	for _, id := range p.Order {
		if !yield(p.Extensions[id]) {
			return
		}
	}
}

// OrderedDestinations yields the destinations by name.
func (p *Plan) OrderedDestinations(yield func(*bridge.Destination) bool) {
	for _, name := range slices.Sorted(maps.Keys(p.Destinations)) {
		if !yield(p.Destinations[name]) {
			return
		}
	}
}

// AddDestinations adds the destinations of the configuration. A destination with the id of an extension is left
// out, because their tools would have the same names.
func (p *Plan) AddDestinations(create func(name string, d config.Destination) *bridge.Destination) {
	p.Destinations = make(map[string]*bridge.Destination, len(p.Config.Destinations))
	for _, name := range slices.Sorted(maps.Keys(p.Config.Destinations)) {
		if other := p.Extensions[name]; other != nil {
			p.Diagnostics = append(p.Diagnostics, protocol.Diagnostic{
				Level:     protocol.LevelError,
				Code:      discovery.CodeDuplicateID,
				Extension: name,
				Path:      other.Candidate.Path,
				Message:   "the destination " + name + " is left out: there is an extension of that id",
				Hint:      "choose another name under destinations",
			})
			continue
		}
		d := create(name, p.Config.Destinations[name])
		p.Destinations[name] = d
		if err := d.Unusable(); err != nil {
			p.Diagnostics = append(p.Diagnostics, protocol.Diagnostic{
				Level:     protocol.LevelError,
				Code:      string(protocol.ConfigInvalid),
				Extension: name,
				Message:   "cannot run: " + protocol.Reason(err),
				Hint:      "change destinations." + name,
			})
		}
	}
}

// Places returns the paths where a change may alter the plan, or now, the previous plan, whose units may go on.
func (p *Plan) Places(now *Plan) discovery.Places {
	return watch.Places(p.Config, p.Dirs, append(p.programs(), now.programs()...))
}

func (p *Plan) programs() (list []watch.Program) {
	for x := range p.Local {
		list = append(list, watch.Program{Spec: x.Spec, Source: x.Source})
	}
	for d := range p.OrderedDestinations {
		list = append(list, watch.Program{Spec: d.Spec, Source: d.Source})
	}
	return list
}

// Sum is a hash of the plan: of the sources of extensions and destinations, the configuration, and the problems
// with files. Plans with different sums differ.
func (p *Plan) Sum() [sha256.Size]byte {
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(p.Config) // always encodes
	for x := range p.Local {
		fmt.Fprintf(h, "%s %x\n", x.ID(), x.Source.Sum)
	}
	for d := range p.OrderedDestinations {
		fmt.Fprintf(h, "%s %x\n", d.ID(), d.Source.Sum)
	}
	for _, c := range p.Skipped {
		fmt.Fprintln(h, "skipped", c.ID, c.Path)
	}
	for _, d := range p.Diagnostics {
		if d.Level != protocol.LevelInfo {
			fmt.Fprintln(h, d.Level, d)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Exhausted returns the diagnostic that file descriptors ran out, so that p does not reflect the disk; nil if
// they did not.
func (p *Plan) Exhausted() *protocol.Diagnostic {
	if i := slices.IndexFunc(p.Diagnostics,
		func(d protocol.Diagnostic) bool { return d.Code == manifest.CodeExhausted }); i >= 0 {
		return &p.Diagnostics[i]
	}
	return nil
}

// Follow reuses the unchanged units of now in p, and those whose new build cannot be used. It returns the
// difference of p from now.
func (p *Plan) Follow(now *Plan) *status.Change {
	c := &status.Change{
		Added:    []string{},
		Changed:  []string{},
		Removed:  []string{},
		Kept:     []status.KeptBuild{},
		Retried:  []string{},
		Restart:  needRestart(now.Config, p.Config),
		Failed:   []protocol.Diagnostic{},
		Policies: p.Policies.Changed(now.Policies),
		Clients:  []string{},
		Files:    []string{},
		Rules:    append([]string{}, config.DiffRules(now.Config.Rules(), p.Config.Rules())...),
	}
	p.followDestinations(now, c)
	for _, id := range p.Order {
		switch before, x := now.Extensions[id], p.Extensions[id]; {
		case before == nil:
			c.Added = append(c.Added, id)
		case before.Source.Sum == x.Source.Sum:
			p.Extensions[id] = before
			if before.HasFailed() {
				c.Retried = append(c.Retried, id)
			}
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
			c.Kept = append(c.Kept, *kept)
		} else {
			c.Removed = append(c.Removed, x.ID())
		}
	}
	return c
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

// needRestart returns the changed sections that a host reads only at Open.
func needRestart(before, after *config.Config) []string {
	list := []string{}
	was, is := before.Server, after.Server
	was.Clients, is.Clients = nil, nil // in force without a start
	for _, s := range []struct {
		key           string
		before, after any
	}{
		{"server", was, is}, {"log", before.Log, after.Log}, {"audit", before.Audit, after.Audit},
		{"secrets", before.Secrets, after.Secrets}, {"otel", before.OTel, after.OTel},
		{"cluster", before.Cluster, after.Cluster},
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
	if x.Candidate.Owner != "" {
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

// skipReason returns everything that keeps c from running. Another file may claim the same id.
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
