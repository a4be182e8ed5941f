package snapshot

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/listing/skills"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Codes of diagnostics about skills.
const (
	codeSkillInvalid = "skill_invalid" // Warn: a skill breaks a rule, and is not served
	codeSkillPartial = "skill_partial" // Info: files of a skill are left out
	codeSkillFields  = "skill_fields"  // Info: the frontmatter has fields that the specification does not know
)

// AddSkills reads the skills in the folder of c, which may run, and reports those that are not served. The skills of a
// folder belong to the extension that has the id of its manifest, those of a plugin to what is no server of it. before
// is the previous plan, which may be nil: files that have not changed since are not read again.
func (p *Plan) AddSkills(c *discovery.Candidate, before *Plan) {
	if c.Owner != "" && c.Owner != c.ID && !(c.Portable() && c.ID == agentplugin.PluginID(c.Owner)) {
		return
	}
	var known *skills.Set
	if before != nil && before.Skills[c.ID] != nil {
		known = before.Skills[c.ID].Set
	}
	set := skills.Reread(c.Dir, known)
	p.skillDirs = append(p.skillDirs, set.Dirs...)
	report := func(code string, level protocol.Level, message, hint string) {
		p.Diagnostics = append(p.Diagnostics, protocol.Diagnostic{
			Level:     level,
			Code:      code,
			Extension: c.ID,
			Path:      c.Path,
			Message:   message,
			Hint:      hint,
		})
	}
	if set.Err != nil {
		report(codeSkillInvalid, protocol.LevelWarn, "its skills are not served: "+set.Err.Error(), "")
	}
	unknown := map[string][]string{} // skills by what is said of their fields
	for _, r := range set.Reports {
		name := skills.Folder + "/" + display.Cut(display.Escape(r.Name), maxSkillName)
		switch {
		case !r.Valid:
			report(codeSkillInvalid, protocol.LevelWarn, name+" is not served: "+r.Reason, "see "+r.Section)
		case r.Note != "":
			report(codeSkillPartial, protocol.LevelInfo, name+": "+r.Note, "")
		}
		if r.Unknown != "" {
			unknown[r.Unknown] = append(unknown[r.Unknown], name)
		}
	}
	for _, said := range slices.Sorted(maps.Keys(unknown)) {
		report(codeSkillFields, protocol.LevelInfo,
			display.Cut(strings.Join(unknown[said], ", "), maxSkillNames)+": "+said, "")
	}
	if served := skills.Serve(c.ID, set); served != nil {
		if p.Skills == nil {
			p.Skills = make(map[string]*skills.Served)
		}
		p.Skills[c.ID] = served
	}
}

// Bounds of the names of folders in a message, in bytes: of one, and of several.
const (
	maxSkillName  = 100
	maxSkillNames = 300
)

// SkillOwner returns the extension in whose folder the skill of a URI lies, "" if none or if view hides it. Nobody else
// can offer a skill under such a URI.
func (p *Plan) SkillOwner(uri string, view *toolset.View) (id string, owned bool) {
	id, _, _ = strings.Cut(strings.TrimPrefix(uri, skills.Scheme), "/")
	if e, _ := p.Skills[id].Find(uri); e == nil {
		return "", false
	}
	if !view.Resource(id, uri) {
		return "", true
	}
	return id, true
}

// directoryRead are the settings of the extension for skills that a folder needs.
var directoryRead = json.RawMessage(`{"directoryRead":true}`)

// Capabilities returns the capabilities of an extension as an MCP server: those of its handshake, and those of the
// skills in its folder. It returns nil if there are none. A server's own declaration of skills stays as it is, since it
// also says whether the server reads directories.
func (p *Plan) Capabilities(x *unit.Extension) (capabilities json.RawMessage) {
	if hs := x.Handshake(); hs != nil {
		capabilities = hs.Capabilities
	}
	return p.WithSkills(x.ID(), capabilities)
}

// WithSkills adds to the capabilities of an extension those of the skills in its folder.
func (p *Plan) WithSkills(id string, capabilities json.RawMessage) json.RawMessage {
	if p.Skills[id] == nil {
		return capabilities
	}
	if capabilities == nil {
		capabilities = json.RawMessage("{}")
	}
	if rawjson.Get(capabilities, "resources") == nil {
		capabilities = rawjson.Set(capabilities, "resources", json.RawMessage(`{"listChanged":true}`))
	}
	extensions := rawjson.Get(capabilities, "extensions")
	if !rawjson.IsObject(extensions) {
		extensions = json.RawMessage("{}")
	}
	if rawjson.Get(extensions, protocol.ExtensionSkills) == nil {
		extensions = rawjson.Set(extensions, protocol.ExtensionSkills, directoryRead)
	}
	return rawjson.Set(capabilities, "extensions", extensions)
}

// OtherSkills returns the ids of the extensions whose skills in p differ from those in before, sorted as p is ordered.
func (p *Plan) OtherSkills(before *Plan) (ids []string) {
	ids = []string{}
	for _, id := range p.Order {
		if !sameSkills(p.Skills[id], before.Skills[id]) {
			ids = append(ids, id)
		}
	}
	return ids
}

func sameSkills(a, b *skills.Served) bool {
	if a == b {
		return true
	}
	one, other := a.Entries(), b.Entries()
	if len(one) != len(other) {
		return false
	}
	for i := range one {
		if !bytes.Equal(one[i].Judged, other[i].Judged) {
			return false
		}
	}
	return true
}

// skillsOf returns the skills in the folder of an extension for its status.
func (s *Snapshot) skillsOf(id string) (list []status.Skill) {
	for _, e := range s.Skills[id].Entries() {
		one := status.Skill{
			Name:        e.Name,
			Description: e.Description,
			URI:         e.URI,
			Files:       len(e.Files),
			Bytes:       e.Size(),
		}
		if err := s.Policies.HoldsSkill(id, e.URI); err != nil {
			one.Held = protocol.Reason(err)
		}
		list = append(list, one)
	}
	return list
}
