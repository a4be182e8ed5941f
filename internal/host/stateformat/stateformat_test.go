package stateformat

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost/protocol"
)

// TestClaim has many hosts claim a new directory at once. All may use it, and it states the format from then on.
func TestClaim(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := Check(dir); err != nil {
		t.Errorf("a directory that is missing: %v", err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := Claim(dir, "1.2.3"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	const want = `{"format":1,"exthost":"1.2.3"}` + "\n"
	if data, err := os.ReadFile(filepath.Join(dir, FileName)); err != nil || string(data) != want {
		t.Errorf("%q, %v", data, err)
	}
	if err := Claim(dir, "1.3.0"); err != nil {
		t.Errorf("another version of the same format: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestRefuses checks that a newer format, and a file that says none, are errors with the file and the next step, and
// that the file stays as it is.
func TestRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"a newer format": {`{"format":2,"exthost":"7.0.0","more":[1]}`,
			`exthost "7.0.0" wrote this state, in format 2, and this program reads formats up to 1; run that version`},
		"a hostile version": {`{"format":9,"exthost":"\u001b[2J` + strings.Repeat("x", 99) + `"}`, `exthost "\x1b[2Jxxx`},
		"nothing":           {"", "does not say which format"},
		"no JSON":           {"1\n", "does not say which format"},
		"two values":        {`{"format":1} {"format":2}`, "does not say which format"},
		"no format":         {`{"exthost":"0.1.0"}`, `no "format"`},
		"format 0":          {`{"format":0}`, `no "format"`},
		"a negative format": {`{"format":-1}`, `no "format"`},
		"a format in words": {`{"format":"1"}`, "restore the file"},
		"a huge number":     {`{"format":1e99}`, "restore the file"},
		"a long file":       {`{"format":1}` + strings.Repeat(" ", maxBytes), "more than 4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, FileName)
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{Check(dir), Claim(dir, "0.1.0")} {
				if protocol.KindOf(err) != protocol.RequirementMissing || !strings.Contains(err.Error(), tt.want) ||
					!strings.Contains(err.Error(), path) {
					t.Errorf("%v, want %q", err, tt.want)
				}
			}
			if data, err := os.ReadFile(path); err != nil || string(data) != tt.text {
				t.Errorf("the file is now %q, %v", data, err)
			}
		})
	}
	t.Run("a link", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Symlink("elsewhere", filepath.Join(dir, FileName)); err != nil {
			t.Skip(err)
		}
		if err := Claim(dir, "0.1.0"); protocol.KindOf(err) != protocol.RequirementMissing {
			t.Error(err)
		}
	})
	t.Run("a directory in a file", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Claim(dir, "0.1.0"); err != nil { // the host says of each extension that it keeps nothing
			t.Error(err)
		}
	})
}
