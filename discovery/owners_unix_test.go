//go:build unix

package discovery

import (
	"os"
	"strings"
	"testing"
)

// TestManifestsThatOthersMayChange makes manifests, their folders and the folders above writable for everybody.
func TestManifestsThatOthersMayChange(t *testing.T) {
	tree(t, map[string]string{
		"ext/good/plugin.toml":      valid("good"),
		"ext/file/plugin.toml":      valid("file"),
		"ext/dir/plugin.toml":       valid("dir"),
		"ext/team/one/plugin.toml":  valid("one"),
		"ext/team/two/plugin.toml":  valid("two"),
		"ext/sidecar/plugin.toml":   valid("sidecar"),
		"ext/sidecar/.mcp.json":     `{}`,
		"ext/dir/below/plugin.toml": valid("below"),
	})
	for path, mode := range map[string]os.FileMode{
		"ext/file/plugin.toml":  0o666,
		"ext/dir":               0o777,
		"ext/team":              0o777,
		"ext/sidecar/.mcp.json": 0o602,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	r := discover(t, Options{})
	expect(t, r, []string{"good ext/good/plugin.toml", "sidecar ext/sidecar/plugin.toml"}, []string{
		"error owner_refused ext/dir/below/plugin.toml", "error owner_refused ext/dir/plugin.toml",
		"error owner_refused ext/file/plugin.toml", "error owner_refused ext/sidecar/.mcp.json",
		"error owner_refused ext/team/one/plugin.toml", "error owner_refused ext/team/two/plugin.toml"})
	for _, d := range r.Diagnostics {
		if d.Path == "ext/team/one/plugin.toml" &&
			(!strings.Contains(d.Message, "everybody may write the directory") ||
				!strings.Contains(d.Hint, "chmod o-w ")) {
			t.Errorf("%s", d)
		}
	}
	if got := ids(discover(t, Options{Safe: []string{"ext"}})); len(got) != 6 {
		t.Errorf("in a safe directory: %q", got)
	}
	if err := os.Chmod("ext", 0o777); err != nil {
		t.Fatal(err)
	}
	if got := ids(discover(t, Options{Safe: []string{"ext/good"}})); len(got) != 0 {
		t.Errorf("in a search path of everybody: %q", got)
	}
}
