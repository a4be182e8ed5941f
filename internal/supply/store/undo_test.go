package store

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/exthost/exthost/internal/supply/consent"
)

// The files of two versions, which differ in each way that an exchange knows.
var (
	versionOne = map[string]string{"a.js": "1", "dir/x": "1", "flat": "1", "old.js": "1", "same.js": "0", "z.js": "1"}
	versionTwo = map[string]string{"a.js": "2", "dir": "2", "flat/x": "2", "new.js": "2", "same.js": "0", "z.js": "2"}
)

// TestExchangeKeepsAnEdit has a user save a file after an exchange was planned. The file stays as it was saved; where
// the exchange would replace it, that fails and all other files are as before.
func TestExchangeKeepsAnEdit(t *testing.T) {
	for name, tt := range map[string]struct {
		add    bool // there is no version before, and the user has the same file as in the package
		saves  string
		text   string
		before bool // the time of the file is as before
		inWay  bool
	}{
		"replaced":              {saves: "z.js", text: "an hour of work", inWay: true},
		"replaced, in size":     {saves: "z.js", text: "!", before: true, inWay: true},
		"new":                   {saves: "new.js", text: "mine", inWay: true},
		"new in a directory":    {saves: "flat.d/x", text: "mine"},
		"new in the first copy": {add: true, saves: "z.js", text: "mine", inWay: true},
		"removed":               {saves: "old.js", text: "edited"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(t.TempDir(), consent.HoldsCode)
			first, second := putFiles(t, s, versionOne), putFiles(t, s, versionTwo)
			dir := filepath.Join(t.TempDir(), "reports")
			want := maps.Clone(versionOne)
			if tt.add {
				first, want = "", map[string]string{"a.js": "2"}
				write(t, filepath.Join(dir, "a.js"), "2", 0o644)
			} else if _, err := s.Exchange(dir, "", first); err != nil {
				t.Fatal(err)
			}
			x, err := s.prepare(dir, first, second)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, tt.saves)
			was, _ := os.Stat(path)
			write(t, path, tt.text, 0o644)
			if tt.before {
				if err := os.Chtimes(path, was.ModTime(), was.ModTime()); err != nil {
					t.Fatal(err)
				}
			}
			left, err := s.perform(x)
			if !tt.inWay {
				want = maps.Clone(versionTwo)
			}
			want[tt.saves] = tt.text
			if refusal, refused := errors.AsType[InTheWay](err); refused != tt.inWay ||
				refused && !slices.Equal(refusal.Files, []string{tt.saves}) || !refused && err != nil {
				t.Errorf("%q, %v", left, err)
			}
			if got := content(t, dir); !same(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			if _, killed := s.killed(dir); killed {
				t.Error("it counts as killed")
			}
			if tt.saves == "old.js" && !slices.Equal(left, []string{"old.js"}) {
				t.Errorf("left %q", left)
			}
		})
	}
}

// TestUndoKeepsAnEdit has a user save a file that an exchange has written before it fails. The file stays.
func TestUndoKeepsAnEdit(t *testing.T) {
	s := New(t.TempDir(), consent.HoldsCode)
	first, second := putFiles(t, s, versionOne), putFiles(t, s, versionTwo)
	dir := filepath.Join(t.TempDir(), "reports")
	if _, err := s.Exchange(dir, "", first); err != nil {
		t.Fatal(err)
	}
	x, err := s.prepare(dir, first, second)
	if err != nil {
		t.Fatal(err)
	}
	want := maps.Clone(versionOne)
	for _, name := range []string{"z.js", "a.js", "old.js"} {
		write(t, filepath.Join(dir, name), "saved", 0o644)
		want[name] = "saved"
		if name != "z.js" {
			continue
		}
		if err := x.run(); !errors.As(err, new(InTheWay)) {
			t.Fatal(err)
		}
	}
	if err := s.undo(x); err != nil {
		t.Fatal(err)
	}
	if got := content(t, dir); !same(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
