package hosts

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost/internal/listing/skills"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
)

// ReadPlugin reads the plugin in a folder, with its skills.
func ReadPlugin(dir string) *agentplugin.Plugin {
	p := agentplugin.Read(dir, agentplugin.Options{})
	if p.Identity.Rejected {
		return p
	}
	add := func(level protocol.Level, name, text, section string) {
		p.Diagnostics = append(p.Diagnostics, protocol.Diagnostic{
			Level:     level,
			Code:      manifest.CodeSidecar,
			Extension: p.Identity.Name,
			Path:      filepath.Join(dir, skills.Folder, name),
			Message:   text + " (Agent Plugins " + section + ")",
		})
	}
	note := func(level protocol.Level, name, text, section string) {
		p.Notes = append(p.Notes, agentplugin.Note{Text: text, Section: section})
		add(level, name, text, section)
	}
	found := skills.Read(dir)
	if found.Err != nil {
		note(protocol.LevelError, "", fmt.Sprintf("no skill is used: %v", found.Err), skillsSection(dir))
	}
	for _, r := range found.Reports {
		s := agentplugin.Skill{Name: r.Name, Valid: r.Valid}
		if !r.Valid {
			s.Reason, s.Section = r.Reason+" ("+r.Section+")", "7.1"
			if own, ok := strings.CutPrefix(r.Section, "Agent Plugins "); ok {
				s.Reason = r.Reason
				s.Section, _, _ = strings.Cut(own, ":")
			}
			add(protocol.LevelError, r.Name, fmt.Sprintf("the skill %q is not used: %s", r.Name, s.Reason), s.Section)
		}
		if r.Note != "" {
			note(protocol.LevelWarn, r.Name, fmt.Sprintf("the skill %q: %s", r.Name, r.Note), "4.1")
		}
		if r.Unknown != "" {
			note(protocol.LevelInfo, r.Name, fmt.Sprintf("the skill %q: %s", r.Name, r.Unknown), "7.1")
		}
		p.Skills = append(p.Skills, s)
	}
	return p
}

// skillsSection returns the section that a folder of skills violates which cannot be used: that about packages whose
// links lead out of them, or that about files of another kind.
func skillsSection(dir string) string {
	root, err := agentplugin.Root(dir)
	if err != nil {
		return "6.2"
	}
	folder, err := agentplugin.Root(filepath.Join(dir, skills.Folder))
	if err != nil {
		return "6.2"
	}
	if rel, err := filepath.Rel(root, folder); err != nil || !filepath.IsLocal(rel) {
		return "4.1"
	}
	return "6.2"
}
