package test

import (
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/protocol"
)

// A call of a tool whose extension was found and cannot run gets the reason, as from the program.
func TestCallOfAbsentExtensionSaysWhy(t *testing.T) {
	f := hosttest.NewFolder(t).Add("a", lite).Add("a_gated",
		"[requires]\nbins = [\"no-such-program\"]\n"+lite).Add("off", lite)
	f.Write("broken/plugin.toml", "[plugin]\nid = \"broken\"\nversion = \"0.1.0\"\n[transport]\ncomand = \"x\"\n")
	cfg := f.Config()
	cfg.Extensions.Disabled = []string{"off"}
	h := f.OpenWith(cfg, exthost.Options{})
	for tool, want := range map[string]struct {
		kind protocol.Kind
		text string
	}{
		"ext_a_gated_say": {protocol.RequirementMissing, "no-such-program"},
		"ext_off_say":     {protocol.ToolNotFound, "extensions.disabled names it"},
		"ext_broken_say":  {protocol.ManifestInvalid, "exthost validate"},
		"ext_a_sai":       {protocol.ToolNotFound, `did you mean "ext_a_say"?`},
		"ext_none_say":    {protocol.ToolNotFound, `there is no tool "ext_none_say"`},
	} {
		if _, err := h.Call(hosttest.Deadline(t), tool, nil); protocol.KindOf(err) != want.kind ||
			!strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %v, want %s with %q", tool, err, want.kind, want.text)
		}
	}
}
