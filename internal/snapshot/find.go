package snapshot

import (
	"cmp"

	"github.com/exthost/exthost/internal/display"
	"github.com/exthost/exthost/internal/toolindex"
	"github.com/exthost/exthost/tools"
)

// maxInstructions bounds what of the instructions of a server describes it, in bytes.
const maxInstructions = 1 << 10

// SetIndexes lets the tools of s be searched, whose catalog and toolsets are set. before is the
// snapshot before, nil for the first.
func (s *Snapshot) SetIndexes(before *Snapshot) {
	var last *toolindex.Indexes
	if before != nil {
		last = before.Indexes
	}
	has := func(toolset string) bool {
		_, err := s.Toolsets.Of(toolset)
		return err == nil
	}
	s.Indexes = toolindex.NewIndexes(s.describe, has, last)
}

// describe returns what an extension says of itself: in its manifest, else as an MCP server.
func (s *Snapshot) describe(id string) string {
	x := s.Extensions[id]
	if x == nil {
		return ""
	}
	said := ""
	if hs := x.Handshake(); hs != nil {
		said = display.Prefix(hs.Instructions, maxInstructions)
	}
	return cmp.Or(x.Candidate.Manifest.Plugin.Description, said)
}

// Find searches the tools of a toolset, "" for all tools, that a caller sees: those that
// policies show it and that visible, if it is not nil, is true for.
func (s *Snapshot) Find(toolset, caller, query string, visible func(*tools.Entry) bool) (toolindex.Answer, error) {
	view, err := s.Toolsets.Of(toolset)
	if err != nil {
		return toolindex.Answer{}, err
	}
	pipeline, shown := s.Policies.Pipeline, visible
	if pipeline.MayHide() {
		shown = func(e *tools.Entry) bool {
			return (visible == nil || visible(e)) && pipeline.Visible(caller, e.Extension, e.Registered())
		}
	}
	return s.Indexes.Of(toolset, view.Tools(s.Catalog)).Find(query, shown), nil
}
