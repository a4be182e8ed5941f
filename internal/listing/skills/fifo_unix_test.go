//go:build unix

package skills

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFIFO does not wait for the writer of a FIFO, which is no file of a skill.
func TestFIFO(t *testing.T) {
	f := newFolder(t)
	f.write("one/SKILL.md", plain("one"))
	f.write("two/notes.md", "x")
	for _, name := range []string{"one/pipe", "two/SKILL.md"} {
		if err := syscall.Mkfifo(filepath.Join(f.dir, Folder, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := Read(f.dir)
	if len(s.Reports) != 1 || !s.Reports[0].Valid || !strings.Contains(s.Reports[0].Note, "pipe") {
		t.Errorf("%+v", s.Reports)
	}
}
