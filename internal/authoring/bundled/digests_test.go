package bundled_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/authoring/bundled"
	"github.com/exthost/exthost/internal/supply/consent"
)

var update = flag.Bool("update", false, "write digests.txt")

// TestDigests compares the digests with the folders.
func TestDigests(t *testing.T) {
	found, err := discovery.Discover(t.Context(), discovery.Options{SearchPaths: []string{"../../../extensions"}})
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
			t.Errorf("%s has another digest than digests.txt: go generate ./internal/authoring/bundled", c.ID)
		}
		now = append(now, fmt.Sprintf("%s %s\n", filepath.Base(c.Dir), v.Files.Digest()))
	}
	if *update {
		if err := os.WriteFile("digests.txt", []byte(strings.Join(now, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The digest of a copy is recognized in a project that has packages of its own.
func TestDigestOfACopyIsKnown(t *testing.T) {
	project := t.TempDir()
	dir := filepath.Join(project, "extensions", "units")
	if err := os.CopyFS(dir, os.DirFS("../../../extensions/units")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(project, "node_modules", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(project, "node_modules", "x", "index.js"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	found, err := discovery.Discover(t.Context(), discovery.Options{SearchPaths: []string{dir}})
	if err != nil || len(found.Candidates) != 1 {
		t.Fatal(found, err)
	}
	k := &consent.Consent{Store: consent.NewStore(t.TempDir()), Bundled: bundled.Is, Project: project}
	v, err := k.Extension(&found.Candidates[0])
	if err != nil || !v.Bundled {
		t.Errorf("it asks: %v", err)
	}
}
