package inspect

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
)

// The cost of examining an extension does not depend on how many others cannot run.
func TestExaminationIsLinear(t *testing.T) {
	cost := func(n int) float64 {
		dir := t.TempDir()
		for i := range n {
			path := filepath.Join(dir, fmt.Sprintf("x%d/plugin.toml", i))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			manifest := fmt.Sprintf("[plugin]\nid = \"x%d\"\nversion = \"1.0.0\"\n[capabilities]\ntools = "+
				"[\"t\"]\n[requires]\nbins = [\"no-such-program\"]\n[transport]\ncommand = \"sh\"\n", i)
			if err := os.WriteFile(path, []byte(manifest), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cfg := config.Default()
		cfg.Extensions.SearchPaths = []string{dir}
		h, err := exthost.Open(context.Background(), cfg,
			exthost.Options{
				StateDir: t.TempDir(),
				Logger:   slog.New(slog.DiscardHandler),
				Start:    func(string) bool { return false },
				Mode:     exthost.Mode{Inspect: true},
			})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		s := h.Status()
		if len(s.Extensions) != n {
			t.Fatalf("%d extensions, want %d", len(s.Extensions), n)
		}
		return testing.AllocsPerRun(3, func() { examineAll(h, s, false) }) / float64(n)
	}
	if few, many := cost(10), cost(80); many > 2*few {
		t.Errorf("an extension costs %.0f allocations among 10, and %.0f among 80", few, many)
	}
}
