package snapshot

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
)

// TestPlacesOfSkills watches a folder that is no skill yet, and a directory of a skill.
func TestPlacesOfSkills(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	empty, inner := filepath.Join(dir, "skills", "empty"), filepath.Join(dir, "skills", "one", "inner")
	for file, text := range map[string]string{
		filepath.Join(empty, "notes.md"):        "",
		filepath.Join(inner, "a.md"):            "",
		filepath.Join(inner, "..", "SKILL.md"):  "---\nname: one\ndescription: d\n---\n",
		filepath.Join(dir, "other", "notes.md"): "",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := &Plan{Config: config.Default()}
	p.AddSkills(&discovery.Candidate{ID: "kit", Dir: dir}, nil)
	if len(p.Diagnostics) > 0 {
		t.Errorf("%+v", p.Diagnostics)
	}
	places := p.Places(&Plan{})
	for _, in := range []string{filepath.Dir(empty), empty, filepath.Dir(inner), inner} {
		if !slices.Contains(places.Dirs, in) || !places.Wants(filepath.Join(in, "SKILL.md")) {
			t.Errorf("%s is not watched", in)
		}
	}
	if slices.Contains(places.Dirs, filepath.Join(dir, "other")) {
		t.Error("a directory without skills is watched")
	}
}
