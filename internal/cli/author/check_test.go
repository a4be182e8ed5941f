package author

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A check removes the state directories that killed checks left. It keeps those of running checks, and everything else.
func TestCheckRemovesWhatKilledOnesLeft(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-leftAfter - time.Hour)
	for _, name := range []string{checkPrefix + "1", checkPrefix + "2", "other-1"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "sandbox-1"), 0o700); err != nil {
			t.Fatal(err)
		}
		if name != checkPrefix+"2" {
			if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	removeLeft(dir)
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(left) != 2 || filepath.Base(left[0]) != checkPrefix+"2" || filepath.Base(left[1]) != "other-1" {
		t.Errorf("left are %q", left)
	}
}
