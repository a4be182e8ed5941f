package manifest

import (
	"fmt"
	"reflect"

	"github.com/exthost/exthost/protocol"
)

// Parse reads a plugin.toml; path is for its diagnostics only. It reports every
// unknown key, wrong type and broken rule at once, except that a syntax error
// hides what else may be wrong. The manifest is nil when any diagnostic is an
// Error. Files over [MaxBytes], or with absurdly deep keys or arrays, are
// refused before they are parsed.
func Parse(path string, data []byte) (*Manifest, []protocol.Diagnostic) {
	return parse(path, data, nil)
}

// parse is Parse with the servers of a .mcp.json, which count if the manifest
// states none itself.
func parse(path string, data []byte, beside map[string]Server) (*Manifest, []protocol.Diagnostic) {
	s, ok := newSource(path, CodeInvalid, data)
	if !ok {
		return nil, s.diags
	}
	values := s.readTOML()
	if values == nil {
		return nil, s.diags
	}
	m := &Manifest{}
	d := decoder{source: s}
	d.table(reflect.ValueOf(m).Elem(), values, s.root, "")
	if m.MCPServers == nil {
		m.MCPServers = beside
	} else if beside != nil {
		s.diagnose(protocol.LevelInfo, CodeSidecarNote, s.find("mcp_servers").off, "",
			"%s is not used: the manifest has [mcp_servers] of its own", SidecarName)
	}
	v := validator{source: s, m: m}
	v.manifest()
	sortByPosition(s.diags)
	s.diags = capped(s.diags)
	if ValidateID(m.Plugin.ID) == nil {
		for i := range s.diags {
			s.diags[i].Extension = m.Plugin.ID
		}
	}
	if failed(s.diags) {
		return nil, s.diags
	}
	return m, s.diags
}

// maxDiagnostics of one file are shown: more help nobody and hide its neighbours'.
const maxDiagnostics = 50

func capped(diags []protocol.Diagnostic) []protocol.Diagnostic {
	more := len(diags) - maxDiagnostics
	if more <= 0 {
		return diags
	}
	last := diags[maxDiagnostics]
	last.Message, last.Hint = fmt.Sprintf("and %d more, from here on", more), ""
	for _, d := range diags[maxDiagnostics:] {
		if d.Level == protocol.LevelError {
			last.Level = d.Level
		}
	}
	return append(diags[:maxDiagnostics:maxDiagnostics], last)
}
