package hosts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Manifests are written for extensions with similar and with hostile ids.
func TestReplaysOfSimilarAndHostileIDs(t *testing.T) {
	cassette := func(ids ...string) string {
		text := `{"cassette":1,"host":"1","begun":"2026-01-02T03:04:05Z"}` + "\n"
		for i, id := range ids {
			text += fmt.Sprintf(`{"at":0,"run":%d,"start":{"extension":"%s","transport":"stdio","protocol":"mcp"}}`+
				"\n", i+1, id)
		}
		file := filepath.Join(t.TempDir(), "x.cassette")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	dir, ids, err := Replays(cassette("a.b", "a_b", `x\u001b]0;y\u0007`, "../../up", "/abs"), "strict", "0")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if diff := cmp.Diff(map[string]string{
		"a_b_":        "a.b",
		"a_b":         "a_b",
		"x\x1b]0;y\a": "x\x1b]0;y\a",
		"__/__/up":    "../../up",
		"/abs":        "/abs",
	}, ids); diff != "" {
		t.Error(diff)
	}
	files, err := filepath.Glob(filepath.Join(dir, "extensions", "[0-9]", "plugin.toml"))
	if err != nil || len(files) != 5 {
		t.Error(files, err)
	}
	many := strings.Split(strings.TrimSuffix(strings.Repeat("x,", maxReplayed+1), ","), ",")
	for i := range many {
		many[i] += fmt.Sprint(i)
	}
	if _, _, err := Replays(cassette(many...), "strict", "0"); err == nil ||
		!strings.Contains(err.Error(), "more than the 1000") {
		t.Error(err)
	}
}
