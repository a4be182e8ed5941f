package scaffold_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/authoring/scaffold"
	"github.com/exthost/exthost/internal/listing/skills"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
)

func TestEveryLanguageHasAValidManifest(t *testing.T) {
	names, about := scaffold.Languages()
	for _, lang := range names {
		dir := filepath.Join(t.TempDir(), "my-tool")
		files, err := scaffold.Create(scaffold.Options{ID: "my-tool", Dir: dir, Lang: lang, Version: "1.2.3"})
		if err != nil {
			t.Fatal(err)
		}
		_, diags := manifest.ReadFile(filepath.Join(dir, manifest.FileName), manifest.ReadOptions{})
		for _, d := range diags {
			if d.Level != protocol.LevelInfo {
				t.Errorf("%s: %s", lang, d)
			}
		}
		for _, name := range files {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || bytes.Contains(data, []byte("{{")) || len(data) == 0 {
				t.Errorf("%s: %s: %v\n%.200s", lang, name, err, data)
			}
		}
		if about[lang] == "" {
			t.Errorf("%s is not explained", lang)
		}
	}
}

func TestCreateReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	o := scaffold.Options{ID: "a", Dir: dir, Lang: "exec", Version: "1"}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := scaffold.Create(o); !errors.Is(err, scaffold.ErrExists) {
		t.Error(err)
	}
	o.Dir = filepath.Join(dir, "notes.txt", "below") // cannot be created
	if _, err := scaffold.Create(o); err == nil {
		t.Error("it was written below a file")
	}
	for _, wrong := range []scaffold.Options{
		{ID: "A", Dir: filepath.Join(dir, "A"), Lang: "exec"},
		{ID: "a", Dir: filepath.Join(dir, "a"), Lang: "cobol"},
	} {
		if _, err := scaffold.Create(wrong); err == nil {
			t.Errorf("%+v was taken", wrong)
		}
		if _, err := os.Stat(wrong.Dir); err == nil {
			t.Errorf("%s is there", wrong.Dir)
		}
	}
}

// Create fails at its last file and removes the others.
func TestCreateUndoesWhatItBegan(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "a")
	if err := os.Mkdir(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		t.Skip("the superuser writes where nobody may: undoing is NOT TESTED")
	}
	if _, err := scaffold.Create(scaffold.Options{ID: "a", Dir: dir, Lang: "exec", Version: "1"}); err == nil {
		t.Error("it was written")
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("%v is left", entries)
	}
}

// An extension in Go uses the module that it is in, else one of its own that replaces exthost by the checkout.
func TestGoModule(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(dir, "extensions", "a")
	if _, err := scaffold.Create(scaffold.Options{ID: "a", Dir: inside, Lang: "go", Version: "1.2.3"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(inside, "go.mod")); err == nil {
		t.Error("it has a module of its own")
	}
	outside := filepath.Join(t.TempDir(), "a")
	if _, err := scaffold.Create(scaffold.Options{ID: "a", Dir: outside, Lang: "go", Version: "1.2.3"}); err != nil {
		t.Fatal(err)
	}
	checkout, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(outside, "go.mod"))
	for _, want := range []string{
		"require github.com/exthost/exthost v1.2.3\n",
		"replace github.com/exthost/exthost => " + checkout + "\n", // nobody has published this version
	} {
		if !strings.Contains(string(mod), want) {
			t.Errorf("%s, %v: no %q", mod, err, want)
		}
	}
}

// The SDK files of bundled extensions match this tree. To update them: exthost init --update-sdk extensions/NAME.
func TestBundledSDKs(t *testing.T) {
	files, err := filepath.Glob("../../../extensions/*/exthost.*")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		sdk := map[string]string{
			"exthost.py":    "../../../sdk/python",
			"exthost.mjs":   "../../../sdk/node",
			"exthost.d.mts": "../../../sdk/node",
		}[name]
		want, err := os.ReadFile(filepath.Join(sdk, name))
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if header, source, _ := bytes.Cut(have, []byte("\n")); !bytes.Equal(source, want) ||
			!bytes.Contains(header, []byte("exthost SDK")) {
			t.Errorf("%s is not the SDK of this tree: go run ./cmd/exthost init --update-sdk %s", file,
				strings.TrimPrefix(filepath.Dir(file), "../../../"))
		}
	}
}

// TestPluginIsValid reads the plugins that are written as any client does.
func TestPluginIsValid(t *testing.T) {
	for _, lang := range scaffold.PluginLanguages() {
		dir := filepath.Join(t.TempDir(), "my.tool")
		o := scaffold.Options{ID: "my.tool", Dir: dir, Lang: lang, Plugin: true, Version: "1.2.3"}
		files, err := scaffold.Create(o)
		if err != nil {
			t.Fatal(err)
		}
		p := agentplugin.Read(dir, agentplugin.Options{})
		if p.Identity.Rejected || len(p.Diagnostics) > 0 || len(p.Servers) != 1 || !p.Servers[0].Valid {
			t.Errorf("%s: %+v", lang, p)
		}
		if found := skills.Read(dir); len(found.Skills) != 1 || !found.Reports[0].Valid {
			t.Errorf("%s: %+v", lang, found)
		}
		for _, name := range files {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || bytes.Contains(data, []byte("{{")) || len(data) == 0 {
				t.Errorf("%s: %s: %v\n%.200s", lang, name, err, data)
			}
		}
		if _, err := scaffold.Create(o); !errors.Is(err, scaffold.ErrExists) {
			t.Error(err)
		}
	}
	for _, wrong := range []scaffold.Options{
		{ID: "my_tool", Dir: filepath.Join(t.TempDir(), "a"), Lang: "node", Plugin: true},
		{ID: "tool", Dir: filepath.Join(t.TempDir(), "a"), Lang: "bash", Plugin: true},
	} {
		if _, err := scaffold.Create(wrong); err == nil {
			t.Errorf("%+v was taken", wrong)
		}
		if _, err := os.Stat(wrong.Dir); err == nil {
			t.Errorf("%s is there", wrong.Dir)
		}
	}
}
