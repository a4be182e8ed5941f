package recorder

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/internal/text/redact"
	"github.com/exthost/exthost/protocol"
)

// TestNothingButACassetteIsSetAside names files that are not cassettes in the configuration. Of those that were set
// aside the latest are kept, by time.
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
		"x.1":     "of a user",
	} {
		write(name, text)
	}
	for _, name := range []string{"main.go", "one"} {
		told = nil
		s.Follow(Config{File: filepath.Join(dir, name), Within: dir})
		if len(told) != 1 || !strings.Contains(told[0], "no cassette") {
			t.Errorf("%s: %q", name, told)
		}
	}
	// Earlier cassettes, one of which is in the way of the next, and files of a user with such names.
	begun := time.Date(2026, 11, 27, 16, 30, 0, 0, time.UTC)
	aside := func(n int) string { return "x" + begun.Add(time.Duration(n)*time.Second).Format(asideLayout) }
	for n := range 4 {
		write(aside(n), "{\"cassette\":1}\n")
	}
	write("x.2026-11-27", "{\"cassette\":1}\n")
	write("x"+begun.Add(-time.Hour).Format(asideLayout), "of a user")
	write("x", "{\"cassette\":1}\n{\"at\":0,\"cut")
	last := begun.Add(3 * time.Second)
	if err := os.Chtimes(filepath.Join(dir, "x"), last, last); err != nil {
		t.Fatal(err)
	}
	told = nil
	s.Follow(Config{File: filepath.Join(dir, "x"), Within: dir, Keep: 3})
	s.Follow(Config{})
	if told != nil {
		t.Error(told)
	}
	var got []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	want := []string{"main.go", "one", "x", "x.1", "x.2026-11-27", "x" + begun.Add(-time.Hour).Format(asideLayout),
		aside(2), aside(3), "x" + last.Add(time.Millisecond).Format(asideLayout)}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{
		"main.go": "package main\n",
		"one":     "no end of a line",
		"x.1":     "of a user",
		"x":       `{"cassette":1,`,
		"x" + last.Add(time.Millisecond).Format(asideLayout): "{\"cassette\":1}\n{\"at\":0,\"cut",
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
	aside, _ := filepath.Glob(file + ".2*Z")
	if len(aside) != 1 {
		t.Fatalf("set aside: %q", aside)
	}
	if text, err := os.ReadFile(aside[0]); err != nil || !strings.Contains(string(text), `"extension":"notes"`) {
		t.Errorf("set aside: %s, %v", text, err)
	}
}
