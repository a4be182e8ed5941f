package snapshot

import (
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// An unreadable extension is listed, and its tools are not reported as unknown.
func TestUnreadableIsNotReady(t *testing.T) {
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{"/x/ext", "/x/root"}
	s := Snapshot{
		Catalog: new(tools.Catalog),
		Plan: &Plan{
			Config: cfg,
			Diagnostics: []protocol.Diagnostic{
				{
					Code:    discovery.CodeUnreadable,
					Path:    "/x/ext/locked",
					Message: "the directory cannot be searched: permission denied",
				},
				{Code: discovery.CodeUnreadable, Path: "/x/root", Message: "a search path is no extension"},
				{
					Code:    manifest.CodeUnreadable,
					Path:    "/x/ext/half/plugin.toml",
					Message: "the file cannot be opened: permission denied",
				},
				{
					Code:    manifest.CodeExhausted,
					Path:    "/x/ext/many/.mcp.json",
					Message: "the file cannot be opened: too many open files",
				},
				{
					Code:    manifest.CodeExhausted,
					Path:    "/x/ext/plug/io.github.exthost/tables.toml",
					Message: "io.github.exthost/tables.toml cannot be read: too many open files",
				},
				{Code: manifest.CodeInvalid, Path: "/x/ext/broken/plugin.toml", Message: "unknown key"},
			},
		},
	}
	var st status.Status
	s.Describe(&st)
	want := []string{
		"locked: permission denied", "half: permission denied", "many: too many open files",
		"plug: too many open files",
	}
	if len(st.Extensions) != len(want) {
		t.Fatalf("%+v", st.Extensions)
	}
	for i, x := range st.Extensions {
		id, reason, _ := strings.Cut(want[i], ": ")
		if x.ID != id || x.State != status.StateNotReady || !strings.HasSuffix(x.Reason, reason) {
			t.Errorf("%+v, want %s", x, want[i])
		}
		if err := s.Absent("", "ext_"+id+"_say", nil); protocol.KindOf(err) != protocol.NotReady ||
			!strings.Contains(err.Error(), reason) {
			t.Errorf("a tool of %s: %v", id, err)
		}
	}
	if err := s.Absent("", "ext_broken_say", nil); err != nil {
		t.Errorf("a manifest that was read: %v", err)
	}
}
