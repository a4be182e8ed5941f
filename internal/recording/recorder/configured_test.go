package recorder

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/internal/text/redact"
	"github.com/exthost/exthost/protocol"
)

// TestNothingButACassetteIsSetAside names files that are not cassettes in the configuration.
func TestNothingButACassetteIsSetAside(t *testing.T) {
	dir := t.TempDir()
	var told []string
	s := Configured{
		Hub:    New("1.0", new(redact.Redactor)),
		Log:    slog.New(slog.DiscardHandler),
		Report: func(d protocol.Diagnostic) { told = append(told, d.Message) },
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"main.go": "package main\n",
		"one":     "no end of a line",
		"data.1":  "of a user",
		"x.1":     "another",
		"x.2":     "a third",
	} {
		write(name, text)
	}
	write("x", "{\"cassette\":1}\n{\"at\":0,\"cut")
	for _, name := range []string{"main.go", "one", "data", "x"} {
		told = nil
		s.Follow(Config{File: filepath.Join(dir, name), Within: dir})
		if len(told) != 1 || !strings.Contains(told[0], "no cassette") {
			t.Errorf("%s: %q", name, told)
		}
	}
	if err := os.Remove(filepath.Join(dir, "x.1")); err != nil {
		t.Fatal(err)
	}
	told = nil
	s.Follow(Config{File: filepath.Join(dir, "x"), Within: dir, MaxBytes: 1 << 20})
	s.Follow(Config{File: filepath.Join(dir, "x"), Within: dir, MaxBytes: 2 << 20})
	s.Follow(Config{})
	if told != nil {
		t.Error(told)
	}
	for name, want := range map[string]string{
		"main.go": "package main\n",
		"one":     "no end of a line",
		"data.1":  "of a user",
		"x.2":     "a third",
		"x.1":     `{"cassette":1,`,
		"x":       `{"cassette":1,`,
	} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}

// TestTwoHostsWithOneCassette configures one file for two hosts. The second host records nothing, and neither its
// start nor its reload removes the first one's records.
func TestTwoHostsWithOneCassette(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file that is open cannot be renamed")
	}
	file := filepath.Join(t.TempDir(), "x.cassette")
	var told []string
	host := func() *Configured {
		return &Configured{
			Hub:    New("1.0", new(redact.Redactor)),
			Log:    slog.New(slog.DiscardHandler),
			Report: func(d protocol.Diagnostic) { told = append(told, d.Message) },
		}
	}
	first, second := host(), host()
	first.Follow(Config{File: file})
	second.Follow(Config{File: file})
	if len(told) != 1 || !strings.Contains(told[0], "is being written, by another host") {
		t.Fatal(told)
	}
	if _, _, err := cassette.Create(file, true); err == nil || !strings.Contains(err.Error(), "is being written") {
		t.Errorf("exthost calls record --force: %v", err)
	}
	wire := first.Hub.Wire("notes")
	wire.Start(cassette.Start{Transport: "stdio", Protocol: "mcp"})
	first.Follow(Config{})
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `"extension":"notes"`) ||
		!strings.Contains(string(text), `"closed"`) {
		t.Errorf("%s, %v", text, err)
	}
	second.Follow(Config{})
	second.Follow(Config{File: file})
	if len(told) != 1 {
		t.Errorf("once the first has ended: %q", told)
	}
	second.Follow(Config{})
	if text, err := os.ReadFile(file + ".1"); err != nil || !strings.Contains(string(text), `"extension":"notes"`) {
		t.Errorf("set aside: %s, %v", text, err)
	}
}
