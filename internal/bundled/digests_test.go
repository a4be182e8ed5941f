package bundled_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/bundled"
	"github.com/exthost/exthost/internal/consent"
)

var update = flag.Bool("update", false, "write digests.txt")

// TestDigests compares the digests with the folders that they are of.
func TestDigests(t *testing.T) {
	found, err := discovery.Discover(t.Context(), discovery.Options{SearchPaths: []string{"../../extensions"}})
	if err != nil || len(found.Candidates) == 0 {
		t.Fatal("no bundled extension:", err)
	}
	k := &consent.Consent{Store: consent.NewStore(t.TempDir()), Bundled: bundled.Is}
	var now []string
	for _, c := range found.Candidates {
		v, err := k.Extension(&c)
		if err != nil {
			t.Fatal(err)
		}
		if !v.Bundled && !*update {
			t.Errorf("%s has another digest than digests.txt: go generate ./internal/bundled", c.ID)
		}
		now = append(now, fmt.Sprintf("%s %s\n", filepath.Base(c.Dir), v.Files.Digest()))
	}
	if *update {
		if err := os.WriteFile("digests.txt", []byte(strings.Join(now, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
