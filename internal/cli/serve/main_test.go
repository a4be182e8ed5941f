package serve

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the greeting into the file that it is compared with")

const kitManifest = `
[plugin]
id = "kit"
version = "0.1.0"
[transport]
kind = "exec"
command = "cat"
[[tools]]
name = "say"
description = "Says its arguments."
`

// project returns a new working directory with these files.
func project(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
