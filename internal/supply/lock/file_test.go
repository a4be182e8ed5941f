package lock

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample() *File {
	tree := "h1:" + strings.Repeat("A", 43) + "="
	return &File{
		Version: 1,
		Extensions: map[string]Entry{
			"fetch": {Source: "npm:@scope/fetch@^1", Version: "1.2.3", Tree: tree, Manifest: Sum([]byte("x")),
				Files: "sha256:ab", Command: "sha256:cd",
				Approved: "2026-11-23T09:00:00Z", ApprovedBy: `o"p\`, Scripts: []string{"esbuild"},
				Tools: map[string]string{"fetch/get page": Sum(nil), "fetch.b/x": Sum(nil)},
				Parts: []Part{
					{Name: "@scope/fetch", Version: "1.2.3", URL: "https://r/x.tgz", Integrity: "sha512-x"},
					{
						Name:      "dep",
						Version:   "1.0.0",
						URL:       "https://r/y.tgz",
						Integrity: "sha512-y",
						Path:      "node_modules/dep",
					},
				}},
			"own":        {Manifest: Sum(nil), Files: "sha256:ab"},
			"acme.tools": {Manifest: Sum(nil), Files: "sha256:ab", Tools: map[string]string{"acme.tools.db/x": Sum(nil)}},
		},
	}
}

// TestWriteRead writes and reads a file twice; the bytes are the same.
func TestWriteRead(t *testing.T) {
	dir := t.TempDir()
	if err := sample().Write(dir); err != nil {
		t.Fatal(err)
	}
	f, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sample(), f); d != "" {
		t.Error(d)
	}
	if !bytes.Equal(f.Text(), sample().Text()) {
		t.Errorf("%s\n%s", f.Text(), sample().Text())
	}
	if _, ok := f.Lookup("other"); ok {
		t.Error("other is locked")
	}
	if f, err := Read(t.TempDir()); err != nil || len(f.Extensions) != 0 {
		t.Errorf("no lock file: %v, %v", f, err)
	}
}

// TestTools uses the longest tool names that a host accepts, and unreadable ones, which are not written. An empty
// table of tools differs from none.
func TestTools(t *testing.T) {
	dir := t.TempDir()
	for _, tools := range []map[string]string{
		nil,
		{},
		{"fetch/" + strings.Repeat("\U0001F600", 128): Sum(nil), "fetch/a\x00\"\n]b": Sum(nil)},
	} {
		f := sample()
		e := f.Extensions["fetch"]
		e.Tools = tools
		f.Extensions["fetch"] = e
		if err := f.Write(dir); err != nil {
			t.Error(err)
		}
		now, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(f, now); diff != "" {
			t.Error(diff)
		}
	}
	before, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"", strings.Repeat("x", 2000)} {
		f := sample()
		f.Extensions["fetch"].Tools["fetch/"+tool] = Sum(nil)
		if f.Write(dir) == nil {
			t.Errorf("a tool with the name %.9q is written", tool)
		}
		if now, err := Read(dir); err != nil || cmp.Diff(before, now) != "" {
			t.Errorf("then there is something else: %v", err)
		}
	}
}

// TestReader checks that a reader parses only changed content, including content that is refused.
func TestReader(t *testing.T) {
	dir := t.TempDir()
	r := NewReader(dir)
	write := func(f *File) {
		t.Helper()
		if err := f.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	write(sample())
	one, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.Read(); again != one || err != nil {
		t.Errorf("parsed twice: %v", err)
	}
	less := sample()
	delete(less.Extensions, "own")
	write(less)
	if f, err := r.Read(); err != nil || len(f.Extensions) != 2 {
		t.Errorf("after a change: %+v, %v", f, err)
	}
	for _, text := range []string{"{}", "{}", "version = 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if f, err := r.Read(); (err == nil) != (text != "{}") {
			t.Errorf("%q: %v, %v", text, f, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, FileName)); err != nil {
		t.Fatal(err)
	}
	if f, err := r.Read(); err != nil || f == nil || len(f.Extensions) != 0 {
		t.Errorf("removed: %v, %v", f, err)
	}
}

// TestRefused checks that an invalid lock file is refused, with the place of each fault.
func TestRefused(t *testing.T) {
	good := string(sample().Text())
	for name, tt := range map[string]struct{ text, want string }{
		"conflict": {strings.Replace(good, "\n[extensions.own]", "<<<<<<< HEAD\n\n[extensions.own]", 1),
			"conflict marker"},
		"unknown version": {strings.Replace(good, "version = 1\n", "version = 2\n", 1), "exthost.lock:2:"},
		"no version":      {strings.Replace(good, "version = 1\n", "", 1), "version 0"},
		"unknown key":     {strings.Replace(good, "approved_by", "approvedby", 1), `unknown key "approvedby"`},
		"twice":           {good + "\n[extensions.own]\n", "own"},
		"manifest":        {strings.Replace(good, "manifest = \"sha256:", "manifest = \"sha1:", 1), "no SHA-256"},
		"tree":            {strings.Replace(good, "tree = \"h1:", "tree = \"h9:", 1), "no hash of files"},
		"tree missing":    {strings.Replace(good, "tree = ", "#", 1), "belong together"},
		"part outside":    {strings.Replace(good, "node_modules/dep", "../dep", 1), "outside of the package"},
		"id":              {strings.Replace(good, "[extensions.own]", `[extensions."../own"]`, 1), "not an id"},
		"another's tool": {strings.Replace(good, `"fetch/get page"`, `"own/get page"`, 1),
			`"own/get page" is no hash of a tool of fetch`},
		"tool's hash": {strings.Replace(good, `"fetch.b/x" = "sha256:`, `"fetch.b/x" = "sha512:`, 1),
			`"fetch.b/x" is no hash`},
		"not UTF-8": {good + "\xff", "not UTF-8"},
		"no TOML":   {"{}", "exthost.lock:1"},
		"too large": {strings.Repeat("#", maxBytes+1), "over 8 MiB"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, FileName), []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if f, err := Read(dir); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v; want %q", name, f, err, tt.want)
		}
	}
}

// TestLink checks that symbolic links are neither read nor replaced.
func TestLink(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, sample().Text(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, FileName)); err != nil {
		t.Skip(err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("read: %v", err)
	}
	if err := sample().Write(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("written: %v", err)
	}
}

// TestChangesAtOnce changes the file from many programs at once and loses nothing.
func TestChangesAtOnce(t *testing.T) {
	dir := t.TempDir()
	entry := sample().Extensions["own"]
	var changes sync.WaitGroup
	for i := range 8 {
		changes.Go(func() {
			f, unlock, err := Edit(dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			f.Extensions[fmt.Sprint("x", i)] = entry
			if err := f.Write(dir); err != nil {
				t.Error(err)
			}
		})
	}
	changes.Wait()
	if f, err := Read(dir); err != nil || len(f.Extensions) != 8 {
		t.Errorf("%v, %v: want 8 entries", f, err)
	}
}
