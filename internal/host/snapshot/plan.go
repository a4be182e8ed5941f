// Package snapshot holds the extensions, destinations, policies, tools and hooks in force: immutable, and
// replaced as one.
package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/host/bridge"
	"github.com/exthost/exthost/internal/host/given"
	"github.com/exthost/exthost/internal/host/policies"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/host/watch"
	"github.com/exthost/exthost/internal/listing/skills"
	"github.com/exthost/exthost/internal/recording/faults"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// Plan is the outcome of a configuration and its search paths: the units that may run, in order, and the
// candidates that may not. It is immutable once it is in force.
type Plan struct {
	Config       *config.Config
	Policies     *policies.Set
	Extensions   map[string]*unit.Extension
	Order        []string              // ids of Extensions, in order of discovery
	Remote       []*unit.Extension     // extensions that only other nodes have, sorted by id
	Replicas     []*unit.Extension     // extensions of other nodes that this host has too; reached through Extensions
	Reserved     []string              // ids of extensions that other nodes had: their tool names stay reserved
	LeftOut      []protocol.Diagnostic // about shared extensions of other nodes
	Destinations map[string]*bridge.Destination
	Skipped      []discovery.Candidate // found, but cannot run
	Diagnostics  []protocol.Diagnostic // about files
	Hooks        []hooks.Handler       // of the configuration
	Faults       *faults.Injector      // of the configuration; nil: none
	Dirs         []string              // searched directories
	// Skills are the skills in the folders of extensions, by id. An extension without any has no entry.
	Skills map[string]*skills.Served

	skillDirs []string // directories in which a change may change skills
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

// Has reports whether u itself is a unit of the plan: a kept extension and a destination may have the same id.
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
	for d := range p.orderedDestinations {
		list = append(list, d)
	}
	return list
}

// Variables returns the names of the environment variables that the plan depends on, sorted: those that the
// configuration refers to or passes, and those that manifests state. The manifests include those of skipped
// extensions, which may lack a variable.
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

// Ordered yields the extensions in order of discovery, then those that only other nodes have.
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

// Local yields the extensions of this host in order of discovery.
func (p *Plan) Local(yield func(*unit.Extension) bool) {
	for _, id := range p.Order {
		if !yield(p.Extensions[id]) {
			return
		}
	}
}

// orderedDestinations yields the destinations by name.
func (p *Plan) orderedDestinations(yield func(*bridge.Destination) bool) {
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

// Places returns the paths where a change may alter the plan. It includes programs of now, the previous plan, because
// its units may go on.
func (p *Plan) Places(now *Plan) discovery.Places {
	return watch.Places(p.Config, slices.Concat(p.Dirs, p.skillDirs), append(p.programs(), now.programs()...))
}

func (p *Plan) programs() (list []watch.Program) {
	for x := range p.Local {
		list = append(list, watch.Program{Spec: x.Spec, Source: x.Source})
	}
	for d := range p.orderedDestinations {
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
		for _, e := range p.Skills[x.ID()].Entries() {
			fmt.Fprintf(h, "%s\n", e.Raw)
		}
	}
	for d := range p.orderedDestinations {
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
	exhausted := func(d protocol.Diagnostic) bool { return d.Code == manifest.CodeExhausted }
	if i := slices.IndexFunc(p.Diagnostics, exhausted); i >= 0 {
		return &p.Diagnostics[i]
	}
	return nil
}

// InjectFaults sets up the faults of the configuration. before is the previous plan, nil for the first.
func (p *Plan) InjectFaults(before *Plan) {
	var known *faults.Injector
	if before != nil {
		known = before.Faults
	}
	p.Faults = faults.New(p.Config.Inject, known)
	for n, r := range p.Config.Inject {
		p.Diagnostics = append(p.Diagnostics, protocol.Diagnostic{
			Level:   protocol.LevelWarn,
			Code:    "faults_injected",
			Message: fmt.Sprintf("calls of %s fail on purpose: %s", r.Tool, &r),
			Hint:    fmt.Sprintf("take inject[%d] out of the configuration", n),
		})
	}
}

// reference matches the beginning of ${NAME} and ${NAME:-default}.
var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)`)

// stated returns the names of the environment variables that m requires or that its transport refers to.
func stated(m *manifest.Manifest) []string {
	t := m.Transport
	names := slices.Clone(m.Requires.Env)
	if t.TokenEnv != "" {
		names = append(names, t.TokenEnv)
	}
	for _, text := range slices.Concat([]string{t.Command, t.Cwd, t.URL}, t.Args, t.Cmd,
		slices.Collect(maps.Values(t.Env)), slices.Collect(maps.Values(t.Headers))) {
		for _, match := range reference.FindAllStringSubmatch(text, -1) {
			names = append(names, match[1])
		}
	}
	return names
}
