package dev

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/exthost/exthost/internal/proc/containment/sweep"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// A build has the mark by which the control socket recognizes the descendants of hosts, as an extension does, even
// after it has left its parents.
func TestBuildsBearTheMark(t *testing.T) {
	processtest.Leaks(t)
	dir := t.TempDir()
	manifest := "[plugin]\nid = \"x\"\nversion = \"0.1.0\"\n[transport]\ncommand = \"./x\"\nprotocol = " +
		"\"mcp\"\n[dev]\nbuild = [\"sh\", \"-c\", \"sed -n 's/^Max file locks *[^ ]* *//p' /proc/self/limits > " +
		"limit\"]\n"
	if err := os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&builder{dir: dir}).build(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "limit"))
	number, _, _ := bytes.Cut(text, []byte(" "))
	limit, _ := strconv.ParseUint(string(number), 10, 64)
	if err != nil || !sweep.OwnMarks().Has(limit) {
		t.Errorf("%v: %s", err, text)
	}
}

// A file that is saved during a build makes the build out of date, until it is built again.
func TestSavedDuringTheBuild(t *testing.T) {
	processtest.Leaks(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"source": "one",
		"plugin.toml": "[plugin]\nid = \"x\"\nversion = \"0.1.0\"\n" +
			"[transport]\ncommand = \"./x\"\nprotocol = \"mcp\"\n" +
			"[dev]\nwatch = [\"source\"]\nbuild = [\"sh\", \"-c\", " +
			"\"cp source built; test -e saved || { echo second > source; touch saved; }\"]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := &builder{dir: dir}
	for _, want := range []struct {
		built   string
		current bool
	}{{"one", false}, {"second\n", true}, {"second\n", true}} {
		if err := b.build(t.Context()); err != nil {
			t.Fatal(err)
		}
		built, err := os.ReadFile(filepath.Join(dir, "built"))
		if err != nil || string(built) != want.built || b.current() != want.current {
			t.Errorf("%q, %v, current %t, want %+v", built, err, b.current(), want)
		}
	}
}
