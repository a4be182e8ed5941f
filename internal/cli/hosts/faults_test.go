package hosts

import (
	"path/filepath"
	"testing"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

func TestUnknownTool(t *testing.T) {
	s := status.Status{
		Extensions: []status.Extension{{ID: "bare", State: "ready"}, {ID: "idle", State: "idle"}},
		Diagnostics: []protocol.Diagnostic{{
			Code:    discovery.CodeLinkSkipped,
			Path:    filepath.Join("extensions", "linked"),
			Message: "links are not followed",
		}},
	}
	for name, want := range map[string]string{
		"ext_bare_go":   `there is no tool "ext_bare_go"`, // the extension has no tool that may be meant
		"ext_idle_go":   `there is no tool "ext_idle_go", did you mean one of extension "idle"?`,
		"ext_linked_go": filepath.Join("extensions", "linked") + ": links are not followed",
	} {
		if got := UnknownTool(s, name).Error(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
