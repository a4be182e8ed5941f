package snapshot

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// Describe adds the extensions and destinations to st, whose Diagnostics must be complete.
func (s *Snapshot) Describe(st *status.Status) {
	st.Generation = s.Catalog.Generation()
	st.Extensions = []status.Extension{}
	for x := range s.Ordered {
		e := x.Status()
		for _, entry := range s.Catalog.Extension(x.ID()) {
			e.Tools = append(e.Tools, entry.Name)
		}
		e.Withheld = s.Catalog.WithheldOf(x.ID())
		e.Skills = s.skillsOf(x.ID())
		e.Undeclared = x.Undeclared()
		if len(e.Hooks) > 0 {
			e.HooksSee = cmp.Or(s.Config.Extensions.Entries[x.ID()].Hooks, config.HooksOwn)
		}
		st.Extensions = append(st.Extensions, e)
	}
	for d := range s.orderedDestinations {
		st.Destinations = append(st.Destinations, d.Status())
	}
	unread, of := s.unreadable(), make(map[string][]protocol.Diagnostic)
	for _, d := range st.Diagnostics {
		of[d.Extension] = append(of[d.Extension], d)
	}
	for _, c := range s.Skipped {
		if slices.ContainsFunc(unread, func(x status.Extension) bool { return x.ID == c.ID }) {
			continue
		}
		e := unit.Describe(c)
		e.State, e.Reason = status.StateSkipped, skipReason(c, of[c.ID])
		if untrusted(c, of[c.ID]) != nil {
			e.State = status.StateUntrusted
		}
		st.Extensions = append(st.Extensions, e)
	}
	st.Extensions = append(st.Extensions, unread...)
	for _, d := range st.Diagnostics {
		if reason, ok := disabledBy[d.Code]; ok {
			st.Extensions = append(st.Extensions, status.Extension{
				ID:     d.Extension,
				Path:   d.Path,
				State:  status.StateDisabled,
				Reason: reason,
				Tools:  []string{},
			})
		}
	}
}

// unreadable returns entries for extensions whose folder or manifest cannot be read, for lack of permissions or
// of file descriptors. Their id is the name of the folder, because the manifest is unknown. Extensions that go on
// with an earlier manifest are left out.
func (p *Plan) unreadable() (list []status.Extension) {
	for _, d := range p.Diagnostics {
		if d.Code != discovery.CodeUnreadable && d.Code != manifest.CodeUnreadable && d.Code != manifest.CodeExhausted {
			continue
		}
		dir := d.Path
		switch filepath.Base(dir) {
		case manifest.FileName, manifest.SidecarName, agentplugin.FileName, agentplugin.ServersName:
			dir = filepath.Dir(dir)
		case agentplugin.TablesName: // in a folder of the plugin's
			dir = filepath.Dir(filepath.Dir(dir))
		}
		known := slices.Contains(p.Config.Extensions.SearchPaths, dir)
		for x := range p.Ordered {
			known = known || filepath.Dir(x.Candidate.Path) == dir
		}
		id := cmp.Or(d.Extension, filepath.Base(dir))
		known = known || slices.ContainsFunc(list, func(x status.Extension) bool { return x.ID == id })
		if !known {
			list = append(list,
				status.Extension{
					ID:     id,
					Path:   d.Path,
					State:  status.StateNotReady,
					Reason: d.Message,
					Tools:  []string{},
				})
		}
	}
	return list
}

// disabledBy names the configuration key that disables an extension, by the code of the diagnostic.
var disabledBy = map[string]string{
	discovery.CodeDisabled:       "extensions.disabled names it",
	discovery.CodeNotAllowlisted: "extensions.allowlist does not name it",
}

// Absent returns an error that says why an extension is not in force that may have this tool: it is skipped, disabled
// or unusable. It returns nil if view shows no such extension. extension is "" if name is a registered name. Like the
// status, the error never quotes a file.
func (p *Plan) Absent(extension, name string, view *toolset.View) error {
	registered := name
	if extension != "" {
		registered = tools.NameOf(extension, name)
	}
	known := 0
	if extension == "" {
		known = p.longestOwner(name, view)
	}
	concerns := func(id string) bool {
		return id != "" && view.Admits(id, registered) &&
			(id == extension || extension == "" && len(id) > known && tools.MayOwn(id, name))
	}
	for _, x := range p.unreadable() {
		if concerns(x.ID) {
			return protocol.Errorf(protocol.NotReady, "there is no tool %q yet: extension %s cannot be read: %s", name,
				x.ID, x.Reason)
		}
	}
	for _, c := range p.Skipped {
		if concerns(c.ID) {
			if untrusted(c, p.Diagnostics) != nil {
				return protocol.Errorf(protocol.Untrusted,
					"there is no tool %q, because extension %s is untrusted: %s; the operator decides with exthost "+
						"trust %s", name, c.ID, skipReason(c, p.Diagnostics), c.ID)
			}
			return protocol.Errorf(protocol.RequirementMissing,
				"there is no tool %q, because extension %s is skipped: %s", name, c.ID, skipReason(c, p.Diagnostics))
		}
	}
	for _, d := range p.Diagnostics {
		reason, disabled := disabledBy[d.Code]
		switch {
		case !concerns(d.Extension):
		case disabled:
			return protocol.Errorf(protocol.ToolNotFound, "there is no tool %q, because extension %s is disabled: %s",
				name, d.Extension, reason)
		case d.Code == discovery.CodeNested && p.Target(d.Extension) == nil:
			return protocol.Errorf(protocol.ToolNotFound, "there is no tool %q, because extension %s does not run: "+
				"its folder is in that of another extension", name, d.Extension)
		case d.Level == protocol.LevelError && p.Target(d.Extension) == nil:
			return protocol.Errorf(protocol.ManifestInvalid,
				"there is no tool %q, because extension %s cannot be used; exthost validate says why", name,
				d.Extension)
		}
	}
	return p.undeclared(extension, name, view)
}

// undeclared returns an error that names the extension that offers the tool without listing it in [capabilities], nil
// if there is none that view shows.
func (p *Plan) undeclared(extension, name string, view *toolset.View) error {
	for x := range p.Ordered {
		if extension != "" && extension != x.ID() {
			continue
		}
		for _, own := range x.Undeclared() {
			registered := tools.NameOf(x.ID(), own)
			if view.Admits(x.ID(), registered) && (registered == name || extension != "" && own == name) {
				return protocol.Errorf(protocol.ToolNotFound, "there is no tool %q: extension %s offers it, and tools "+
					"of [capabilities] in its manifest does not list it; add it there, or leave the list out",
					name, x.ID())
			}
		}
	}
	return nil
}

// longestOwner returns the length of the longest id in force that may own a registered name, 0 if there is none. Of
// several ids the longest is the likeliest owner.
func (p *Plan) longestOwner(name string, view *toolset.View) (length int) {
	for x := range p.Ordered {
		if tools.MayOwn(x.ID(), name) && view.Admits(x.ID(), name) {
			length = max(length, len(x.ID()))
		}
	}
	return length
}
