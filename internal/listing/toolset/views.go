package toolset

import (
	"cmp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Extension is an extension or destination that patterns may select.
type Extension struct {
	ID string
	// Opaque means that the extension may have more than its catalog tools: prompts, resources, tools that it lists
	// itself, or anything before its first handshake.
	Opaque bool
	Skills []string // names of the skills in its folder
	// OtherSkills means that its server serves skills, whose names are not known.
	OtherSkills bool
	// Absent means that the extension is not in force: disabled, or a requirement is missing.
	Absent bool
}

// Views are the views of all toolsets of one snapshot. They are immutable.
type Views struct{ byName map[string]*View }

// NewViews makes the views of toolsets. all are all extensions and destinations. before are the previous views,
// nil for the first.
func NewViews(toolsets map[string]Definition, catalog *tools.Catalog, all []Extension, before *Views) *Views {
	if len(toolsets) == 0 {
		return &Views{}
	}
	prefixes := make(glob.Prefixes, len(all))
	for _, x := range all {
		prefixes[x.ID] = tools.Prefix(x.ID)
	}
	views := &Views{make(map[string]*View, len(toolsets))}
	for name, d := range toolsets {
		v := newView(d, prefixes)
		var prev *tools.Catalog
		if before != nil && before.byName[name] != nil {
			prev = before.byName[name].tools
		}
		v.tools, v.refused = catalog.Select(v.choose, prev)
		for _, x := range all {
			if !x.Absent && (len(v.tools.Extension(x.ID)) > 0 || len(v.tools.WithheldOf(x.ID)) > 0 ||
				x.Opaque && v.mayShow(x.ID, "")) {
				v.reached[x.ID] = true
			}
			if !x.Absent && v.mayShowSkills(x) {
				v.reached[x.ID], v.skilled[x.ID] = true, true
			}
		}
		views.byName[name] = v
	}
	return views
}

// Of returns the view of a toolset, or nil, which shows everything, for "". The error is that of an unknown
// toolset.
func (v *Views) Of(name string) (*View, error) {
	if name == "" {
		return nil, nil
	}
	if view := v.byName[name]; view != nil {
		return view, nil
	}
	return nil, Unknown(name, v.byName)
}

// pattern is a pattern of a toolset.
type pattern struct {
	text    string
	literal string // text before the first wildcard
	begins  bool   // the only wildcard is a final star
	longest string // the longest extension prefix that text begins with, see [glob.Prefixes]
}

func newPattern(text string, prefixes glob.Prefixes) pattern {
	literal := glob.Literal(text)
	return pattern{text, literal, text == literal+"*", prefixes.Longest(text)}
}

func (p *pattern) matches(name string) bool {
	if p.begins {
		return strings.HasPrefix(name, p.literal)
	}
	return glob.Match(p.text, name)
}

// mayMatch reports whether the pattern may match a name that begins with prefix and has with somewhere after it.
func (p *pattern) mayMatch(prefix, with string) bool {
	if p.literal == p.text {
		rest, below := strings.CutPrefix(p.text, prefix)
		return below && strings.Contains(rest, with)
	}
	return strings.HasPrefix(p.literal, prefix) || strings.HasPrefix(prefix, p.literal)
}

// View is what one toolset shows of a snapshot. It is immutable. A nil View shows everything, under registered
// names.
type View struct {
	prefix           string
	risks            []protocol.Risk          // of the shown tools; none: all
	riskOf           map[string]protocol.Risk // of catalog tools by registered name, if risks select
	describe         map[string]string
	prefixes         glob.Prefixes
	include, exclude []pattern
	skills           []pattern // none: skills are selected as resources are
	tools            *tools.Catalog
	shapes           map[string]shape  // of single tools, by registered name
	named            map[string]string // registered names of tools, by names of their own that clients see
	refused          []tools.Refused
	reached          map[string]bool // ids of extensions
	skilled          map[string]bool // ids of those of which skills may be shown by their names
}

// shape is how a view shows a tool.
type shape struct {
	name, describe string // "": as other tools
	reshape        *tools.Reshape
}

func newView(d Definition, prefixes glob.Prefixes) *View {
	v := &View{
		shapes:   make(map[string]shape, len(d.Tools)),
		named:    make(map[string]string),
		prefix:   nativePrefix,
		risks:    d.Risk,
		describe: d.Describe,
		prefixes: prefixes,
		reached:  make(map[string]bool),
		skilled:  make(map[string]bool),
	}
	if d.Prefix != nil {
		v.prefix = *d.Prefix
	}
	if len(d.Risk) > 0 {
		v.riskOf = make(map[string]protocol.Risk)
	}
	for registered, t := range d.Tools {
		if v.shapes[registered] = (shape{t.Name, t.Describe, t.reshape()}); t.Name != "" {
			v.named[t.Name] = registered
		}
	}
	for _, text := range d.Include {
		v.include = append(v.include, newPattern(text, prefixes))
	}
	for _, text := range d.Exclude {
		v.exclude = append(v.exclude, newPattern(text, prefixes))
	}
	for _, text := range d.Skills {
		v.skills = append(v.skills, newPattern(text, nil))
	}
	return v
}

// choose selects catalog tools. The host's own tools read results of visible tools, and are shown unless a
// pattern excludes them.
func (v *View) choose(e *tools.Entry) (tools.Shown, bool) {
	if e.Extension == "" {
		return tools.Shown{Name: e.Name, Description: v.describe[e.Name]}, !v.excludes(e.Name)
	}
	if v.riskOf != nil {
		v.riskOf[e.Name] = e.Risk
	}
	s := v.shapes[e.Name]
	return tools.Shown{
		Name:        v.toolName(e.Name),
		Description: cmp.Or(s.describe, v.describe[e.Name]),
		Reshape:     s.reshape,
	}, v.Admits(e.Extension, e.Name) && v.ShowsRisk(e.Risk)
}

// toolName returns the name under which clients see a tool.
func (v *View) toolName(registered string) string {
	return cmp.Or(v.shapes[registered].name, v.Rename(registered))
}

// ShowsRisk reports whether the toolset shows tools of a risk.
func (v *View) ShowsRisk(r protocol.Risk) bool {
	return v == nil || len(v.risks) == 0 || slices.Contains(v.risks, r.Known())
}

// Excludes reports whether the toolset excludes a tool of the host. One that excludes ext_call means all tools that
// call others.
func (v *View) Excludes(name string) bool {
	if v == nil {
		return false
	}
	return v.excludes(name) || tools.CallsOthers(name) && v.excludes(tools.CallName)
}

// Searches reports whether sessions may be listed a search tool: ext_find, and a tool that calls others of which the
// toolset may show some.
func (v *View) Searches(e *tools.Entry) bool {
	return !v.Excludes(e.Name) && (e.Name == tools.FindName || e.Name == tools.CallName || v.ShowsRisk(e.Risk))
}

func (v *View) excludes(name string) bool {
	return slices.ContainsFunc(v.exclude, func(p pattern) bool { return p.matches(name) })
}

// Admits reports whether the patterns admit a tool or prompt of an extension by its registered name, existing or
// not.
func (v *View) Admits(extension, name string) bool {
	if v == nil {
		return true
	}
	if v.excludes(name) {
		return false
	}
	return len(v.include) == 0 || slices.ContainsFunc(v.include, func(p pattern) bool {
		return p.matches(name) && v.prefixes.Mean(p.longest, extension)
	})
}

// mayShow reports whether the patterns may admit a name of an extension that has with after the extension's prefix.
func (v *View) mayShow(extension, with string) bool {
	prefix := tools.Prefix(extension)
	for _, p := range v.exclude {
		if p.begins && strings.HasPrefix(prefix, p.literal) {
			return false
		}
	}
	return len(v.include) == 0 || slices.ContainsFunc(v.include, func(p pattern) bool {
		return p.mayMatch(prefix, with) && v.prefixes.Mean(p.longest, extension)
	})
}

// whole reports whether the patterns show all of an extension, whatever it has.
func (v *View) whole(extension string) bool {
	prefix := tools.Prefix(extension)
	for registered := range v.shapes { // an unknown method could call the tool as it is
		if strings.HasPrefix(registered, prefix) {
			return false
		}
	}
	if len(v.skills) > 0 || len(v.risks) > 0 || !v.reached[extension] ||
		slices.ContainsFunc(v.exclude, func(p pattern) bool { return p.mayMatch(prefix, "") }) {
		return false
	}
	return len(v.include) == 0 || slices.ContainsFunc(v.include, func(p pattern) bool {
		return p.begins && strings.HasPrefix(prefix, p.literal) && v.prefixes.Mean(p.longest, extension)
	})
}

// Reaches reports whether the toolset shows anything of an extension. For an opaque extension it suffices that
// the patterns may show something.
func (v *View) Reaches(extension string) bool { return v == nil || v.reached[extension] }

// MayHaveResources reports whether the toolset may show resources of an extension.
func (v *View) MayHaveResources(extension string) bool {
	return v == nil || v.skilled[extension] || v.reached[extension] && v.mayShow(extension, ":")
}

// Tools returns the tools of a snapshot that the toolset shows, under its names. all is the catalog of the
// snapshot.
func (v *View) Tools(all *tools.Catalog) *tools.Catalog {
	if v == nil {
		return all
	}
	return v.tools
}

// Rename returns the name under which clients see a tool or prompt.
func (v *View) Rename(registered string) string {
	if v == nil {
		return registered
	}
	return v.prefix + strings.TrimPrefix(registered, nativePrefix)
}

// Native returns the registered name of a tool or prompt by the name under which clients see it. ok is false if no
// extension can have such a name.
func (v *View) Native(name string) (registered string, ok bool) {
	if v == nil {
		return name, true
	}
	if registered, ok = v.named[name]; ok {
		return registered, true
	}
	rest, ok := strings.CutPrefix(name, v.prefix)
	return nativePrefix + rest, ok
}

// Shows reports whether the toolset shows a prompt of an extension by the extension's own name, or anything else that
// is not in the catalog.
func (v *View) Shows(extension, own string) bool {
	return v == nil || v.reached[extension] && v.Admits(extension, tools.NameOf(extension, own))
}

// ShowsTool is Shows for a tool that is not in the catalog: its risk is not known, and it cannot be reshaped.
func (v *View) ShowsTool(extension, own string) bool {
	if v == nil {
		return true
	}
	_, reshaped := v.shapes[tools.NameOf(extension, own)]
	return v.Shows(extension, own) && v.ShowsRisk("") && !reshaped
}

// Shaped returns the entry of a catalog's tool as the toolset shows it, by its registered name; nil if the toolset does
// not show the tool.
func (v *View) Shaped(registered string) *tools.Entry {
	if v == nil {
		return nil
	}
	for _, name := range []string{v.toolName(registered), registered} {
		e, ok := v.tools.Lookup(name)
		if !ok {
			e, ok = v.tools.Withheld("", name)
		}
		if ok && e.Registered() == registered {
			return e
		}
	}
	return nil
}

// Has reports whether the toolset shows a tool of an extension by its registered name, existing or not. It is for
// tasks and results of calls. registered is "" for a request that is about no tool: Has is then true if the toolset
// shows all of the extension.
func (v *View) Has(extension, registered string) bool {
	switch {
	case v == nil:
		return true
	case registered == "":
		return v.whole(extension)
	}
	return v.reached[extension] && v.Admits(extension, registered) && v.ShowsRisk(v.riskOf[registered]) &&
		!v.refuses(registered)
}

// Resource reports whether the toolset shows a resource, a template by its text, or an item of an extension of MCP.
// The patterns must admit all readings of the URI, and exclude none of them without its fragment, which servers do
// not see.
func (v *View) Resource(extension, uri string) bool {
	if v == nil {
		return true
	}
	if _, is := v.selectsSkill(extension, uri); is {
		return v.reached[extension] && v.showsSkill(extension, uri)
	}
	if !v.reached[extension] || !v.Admits(extension, tools.ResourceName(extension, uri)) {
		return false
	}
	if v.whole(extension) {
		return true
	}
	all, ok := readings(uri)
	return ok && !slices.ContainsFunc(all, func(reading string) bool {
		if !v.Admits(extension, tools.ResourceName(extension, reading)) {
			return true
		}
		without, _, more := strings.Cut(reading, "#")
		return more && v.excludes(tools.ResourceName(extension, without))
	})
}
