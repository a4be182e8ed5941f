package snapshot

import (
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/wire/mcpext"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// codeMCPExtension is the code of diagnostics about extensions of MCP that a server declares.
const codeMCPExtension = "mcp_extension"

// DeclaredNow merges the extensions of MCP from the last handshakes of the servers that view reaches, and reports
// the parts left out.
func (p *Plan) DeclaredNow(view *toolset.View) (*mcpext.Merged, []protocol.Diagnostic) {
	var sources []mcpext.Source
	var diags []protocol.Diagnostic
	report := func(x *unit.Extension, text string) {
		diags = append(diags, protocol.Diagnostic{
			Level:     protocol.LevelWarn,
			Code:      codeMCPExtension,
			Extension: x.ID(),
			Path:      x.Candidate.Path,
			Message:   text,
		})
	}
	for x := range p.Ordered {
		if !view.Reaches(x.ID()) {
			continue
		}
		list, problems := p.declaredBy(x)
		for _, text := range problems {
			report(x, text)
		}
		if len(list) > 0 {
			sources = append(sources, mcpext.Source{Server: x.ID(), List: list})
		}
	}
	merged := mcpext.Merge(sources)
	for _, problem := range merged.Problems {
		report(p.Extensions[problem.Server], problem.Text)
	}
	return merged, diags
}

// declaredBy returns the extensions of MCP that a server declares to clients of any version, and that for the skills
// in its folder. The main handshake takes precedence over the one for legacy clients.
func (p *Plan) declaredBy(x *unit.Extension) (list []mcpext.Extension, problems []string) {
	var said []json.RawMessage
	for _, hs := range []*runtime.Handshake{x.Handshake(), x.Legacy.Handshake()} {
		if hs != nil {
			said = append(said, hs.Capabilities)
		}
	}
	for _, capabilities := range append(said, p.WithSkills(x.ID(), nil)) {
		more, found := mcpext.Read(capabilities)
		for _, text := range found {
			if !slices.Contains(problems, text) {
				problems = append(problems, text)
			}
		}
		for _, e := range more {
			if !slices.ContainsFunc(list, func(has mcpext.Extension) bool { return has.ID == e.ID }) {
				list = append(list, e)
			}
		}
	}
	return list, problems
}
