package recorder

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/config/recording"
	"github.com/exthost/exthost/internal/redact"
	"github.com/exthost/exthost/protocol"
)

// TestNothingButACassetteIsSetAside states files of other kinds as cassettes.
func TestNothingButACassetteIsSetAside(t *testing.T) {
	dir := t.TempDir()
	var told []string
	s := Stated{Hub: New("1.0", new(redact.Redactor)), Log: slog.New(slog.DiscardHandler), Report: func(d protocol.Diagnostic) { told = append(told, d.Message) }}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"main.go": "package main\n", "one": "no end of a line", "data.1": "of a user", "x.1": "another", "x.2": "a third"} {
		write(name, text)
	}
	write("x", "{\"cassette\":1}\n{\"at\":0,\"cut")
	for _, name := range []string{"main.go", "one", "data", "x"} {
		told = nil
		s.Follow(recording.Cassette{File: filepath.Join(dir, name), Within: dir})
		if len(told) != 1 || !strings.Contains(told[0], "no cassette") {
			t.Errorf("%s: %q", name, told)
		}
	}
	if err := os.Remove(filepath.Join(dir, "x.1")); err != nil {
		t.Fatal(err)
	}
	told = nil
	s.Follow(recording.Cassette{File: filepath.Join(dir, "x"), Within: dir, MaxBytes: 1 << 20})
	s.Follow(recording.Cassette{File: filepath.Join(dir, "x"), Within: dir, MaxBytes: 2 << 20})
	s.Follow(recording.Cassette{})
	if told != nil {
		t.Error(told)
	}
	for name, want := range map[string]string{"main.go": "package main\n", "one": "no end of a line", "data.1": "of a user", "x.2": "a third", "x.1": `{"cassette":1,`, "x": `{"cassette":1,`} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}
