package consent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLinksBehindLinks: a link to a folder whose only code is behind another link is compared, whichever of the folder
// and the links is read first. Where it leads now is a change.
func TestLinksBehindLinks(t *testing.T) {
	for _, link := range []string{"aa", "zz"} { // before and after the folders
		dir := t.TempDir()
		for name, text := range map[string]string{"code1/x.sh": "1", "code2/x.sh": "2"} {
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		to := func(name, target string) {
			t.Helper()
			_ = os.Remove(filepath.Join(dir, name))
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Skip("NOT TESTED: links cannot be made: ", err)
			}
		}
		to("tools1/lib", "../code1")
		to("tools2/lib", "../code2")
		to(link, "tools1")
		before, err := Folder(dir, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		to(link, "tools2")
		after, err := Folder(dir, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		changes := after.Differs(before)
		if !slices.ContainsFunc(changes, func(name string) bool { return strings.HasPrefix(name, link+"/") }) {
			t.Errorf("%s leads to other code, and the changes are %q", link, changes)
		}
	}
}
