package docs_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pending are the keys of files that are read and checked and do nothing yet: the
// host refuses to start with those whose lack would be dangerous. code matches what would make them count; once something outside the packages
// that read them does, [TestPending] wants them gone from here.
var pending = []struct{ key, code, effect, until string }{
	{"manifest:dev", `Manifest\.Dev\b`, "no effect", "a running host watches"},
	{"config:extensions.watch", `Extensions\.Watch\b`, "no effect", "a running host watches"},
}

// note says of a pending key that it is one, after an opening of its own.
func note(key, opening string) string {
	for _, p := range pending {
		if p.key == key {
			return opening + p.effect + " until " + p.until
		}
	}
	return ""
}

// pendingList is the list of them for the page that says what is not there yet.
func pendingList(testing.TB) string {
	var b strings.Builder
	for _, p := range pending {
		file, key, _ := strings.Cut(p.key, ":")
		fmt.Fprintf(&b, "- `%s` of the %s: %s until %s\n", key, map[string]string{"manifest": "manifest", "config": "host's configuration"}[file], p.effect, p.until)
	}
	return b.String()
}

func TestPending(t *testing.T) {
	readers := []string{"config", "manifest", "governance", "docs", "tools"}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() && (slices.Contains(readers, rel) || strings.HasPrefix(d.Name(), ".") && rel != ".") {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || rel == "unsupported.go" {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, p := range pending {
			if at := regexp.MustCompile(p.code).FindIndex(source); at != nil {
				t.Errorf("%s:%d uses %s, which the pages say has no effect yet", rel, 1+bytes.Count(source[:at[0]], []byte("\n")), p.key)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
