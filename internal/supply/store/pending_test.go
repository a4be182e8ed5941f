package store

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/supply/consent"
)

// TestExchangeAfterAKill has the folder of a copy as SIGKILL leaves it in the middle of an exchange: files of both
// trees, and one that is not complete. The next exchange, in either direction, ends it, and nothing of its user is
// touched, whatever its name.
func TestExchangeAfterAKill(t *testing.T) {
	one := map[string]string{"a.js": "1", "b.js": "1", "old/x": "1"}
	two := map[string]string{"a.js": "2", "b.js": "2", "new/c.js": "second"}
	mine := map[string]string{"notes": "mine", "notes.exthost-new": "mine", "other/a.js.exthost-new": "2"}
	for name, tt := range map[string]struct {
		from func(first, second string) (from, to string)
		want map[string]string
	}{
		"on":                     {func(first, second string) (string, string) { return first, second }, two},
		"back":                   {func(first, second string) (string, string) { return second, first }, one},
		"restored by the lock":   {func(first, _ string) (string, string) { return "", first }, one},
		"removed":                {func(first, _ string) (string, string) { return first, "" }, nil},
		"removed as the new one": {func(_, second string) (string, string) { return second, "" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(t.TempDir(), consent.HoldsCode)
			first, second := putFiles(t, s, one), putFiles(t, s, two)
			dir := filepath.Join(t.TempDir(), "reports")
			if _, err := s.Exchange(dir, "", first); err != nil {
				t.Fatal(err)
			}
			if err := s.VerifyCopy(first, dir); err != nil {
				t.Fatal(err)
			}
			for name, text := range mine {
				write(t, filepath.Join(dir, name), text, 0o644)
			}
			if err := s.begin(dir, pending{first, second}); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "a.js"), "2", 0o644)
			write(t, filepath.Join(dir, "b.js"+newEnding), "", 0o644)
			write(t, filepath.Join(dir, "new", "c.js"+newEnding), "sec", 0o644)
			if err := s.VerifyCopy(first, dir); err == nil || !strings.Contains(err.Error(), "has not ended") {
				t.Errorf("verified: %v", err)
			}
			from, to := tt.from(first, second)
			left, err := s.Exchange(dir, from, to)
			if names := slices.Sorted(maps.Keys(mine)); err != nil || !slices.Equal(left, names) {
				t.Fatalf("left %q, %v; want %q", left, err, names)
			}
			want := maps.Clone(mine)
			maps.Copy(want, tt.want)
			if got := content(t, dir); !same(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			if to != "" {
				err = s.VerifyCopy(to, dir)
			}
			if _, killed := s.killed(dir); killed || err != nil {
				t.Errorf("it counts as killed: %t, %v", killed, err)
			}
		})
	}
}

// TestUnfinishedFileOfSomebodyElse names a file in the place of one that is to be written, and does not remove it.
func TestUnfinishedFileOfSomebodyElse(t *testing.T) {
	s := New(t.TempDir(), consent.HoldsCode)
	first := putFiles(t, s, map[string]string{"a.js": "1"})
	dir := filepath.Join(t.TempDir(), "reports")
	write(t, filepath.Join(dir, "a.js"+newEnding), "mine", 0o644)
	for range 2 { // also where an exchange was killed
		_, err := s.Exchange(dir, "", first)
		if got := (InTheWay{dir, []string{"a.js" + newEnding}}); err == nil || err.Error() != got.Error() {
			t.Errorf("%v, want %v", err, got)
		}
		if err := s.begin(dir, pending{"", first}); err != nil {
			t.Fatal(err)
		}
	}
	if got := content(t, dir); !same(got, map[string]string{"a.js" + newEnding: "mine"}) {
		t.Errorf("%q", got)
	}
}

// TestWithdraw undoes an adding and an upgrade that were killed, and completes a removal.
func TestWithdraw(t *testing.T) {
	s := New(t.TempDir(), consent.HoldsCode)
	first, second := putFiles(t, s, map[string]string{"a.js": "1"}), putFiles(t, s, map[string]string{"a.js": "2"})
	dir := filepath.Join(t.TempDir(), "reports")
	withdraw := func(want map[string]string) {
		t.Helper()
		if err := s.Withdraw(dir); err != nil {
			t.Fatal(err)
		}
		if got := content(t, dir); !same(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	kill := func(from, to string) {
		t.Helper()
		if err := s.begin(dir, pending{from, to}); err != nil {
			t.Fatal(err)
		}
	}
	withdraw(nil)
	write(t, filepath.Join(dir, "a.js"), "1", 0o644)
	write(t, filepath.Join(dir, "mine"), "mine", 0o644)
	kill("", first)
	withdraw(map[string]string{"mine": "mine"})
	write(t, filepath.Join(dir, "a.js"), "2", 0o644)
	kill(first, second)
	withdraw(map[string]string{"a.js": "1", "mine": "mine"})
	kill(first, "")
	withdraw(map[string]string{"mine": "mine"})
	if err := New(filepath.Join(t.TempDir(), "none"), nil).Withdraw(dir); err != nil {
		t.Error(err)
	}
}
