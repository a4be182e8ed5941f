package packages

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/registrytest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
)

// plugin returns the files of a plugin with one server, which it bundles.
func plugin(name string) map[string]string {
	return map[string]string{
		"plugin.json": `{"$schema": "` + agentplugin.PluginSchema + `", "name": "` + name + `", "version": "1.2.0"}`,
		"mcp.json": `{"$schema": "` + agentplugin.ServersSchema +
			`", "mcpServers": {"files": {"type": "stdio", "command": "./bin/server"}}}`,
		"bin/server":             "#!/bin/sh\n",
		"skills/summar/SKILL.md": "---\nname: summar\ndescription: d\n---\n",
	}
}

// entries returns the files as entries of an archive, below a folder.
func entries(folder string, files map[string]string) (list []registrytest.Entry) {
	for name, text := range files {
		list = append(list, registrytest.Entry{Name: folder + name, Body: text})
	}
	return list
}

// isPlugin expects the plugin in the root of the package's tree, with a program that can be run.
func (b workbench) isPlugin(t *testing.T, p *Package, err error, name string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if p.Run.Plugin == nil || p.Run.Plugin.Identity.Name != name || p.Run.Version != "1.2.0" || p.Run.Command != "" {
		t.Fatalf("%+v", p.Run)
	}
	dir, _, err := b.Store.Verify(p.Tree)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "bin", "server"))
	if err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	e := locked(p)
	if _, err := b.Store.Remove(p.Tree); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Fetch(t.Context(), e); err != nil {
		t.Error(err)
	}
	if !p.Same(e) {
		t.Error("the package differs from its own entry")
	}
}

// TestPluginOfFiles adds a plugin from a folder and from archives, with and without a folder around it, with and
// without modes.
func TestPluginOfFiles(t *testing.T) {
	for name, data := range map[string][]byte{
		"reports-1.2.zip":    registrytest.Zip(entries("", plugin("reports"))...),
		"reports.zip":        registrytest.Zip(entries("reports-1.2/", plugin("reports"))...),
		"reports-1.2.tar.gz": registrytest.TarGz(entries("reports-1.2/", plugin("reports"))...),
		"reports.tgz":        registrytest.TarGz(entries("", plugin("reports"))...),
		"reports.mcpb":       registrytest.Zip(entries("", plugin("reports"))...),
		"folder":             nil,
	} {
		t.Run(name, func(t *testing.T) {
			i := newWorkbench(t)
			at := filepath.Join(i.Dir, name)
			if data != nil {
				writeFile(t, at, string(data))
			} else {
				for name, text := range plugin("reports") {
					writeFile(t, filepath.Join(at, name), text)
				}
			}
			p, err := i.add(t, at)
			i.isPlugin(t, p, err, "reports")
			if p.Version != "1.2.0" || p.Source.Name != "./"+name {
				t.Errorf("%+v", p)
			}
		})
	}
}

// TestPluginOfGit adds a plugin from a repository that has files of other formats too.
func TestPluginOfGit(t *testing.T) {
	processtest.Leaks(t)
	r, i := newRepository(t), newWorkbench(t)
	files := plugin("reports")
	files["package.json"] = nodeProgram["package.json"]
	files["index.js"] = nodeProgram["index.js"]
	files["manifest.json"] = `{"name": "other"}`
	commit := r.commit(files)
	p, err := i.add(t, "git+"+r.url+"@"+commit)
	i.isPlugin(t, p, err, "reports")
	if p.Version != commit {
		t.Errorf("%+v", p)
	}
}

// TestMarketplaceWithLinks lists the plugins of a folder with a symbolic link, and adds one of them.
func TestMarketplaceWithLinks(t *testing.T) {
	i := newWorkbench(t)
	dir := filepath.Join(i.Dir, "market")
	writeFile(t, filepath.Join(dir, ".claude-plugin", "marketplace.json"),
		`{"name": "m", "plugins": [{"name": "reports", "source": "./reports"}]}`)
	for name, text := range plugin("reports") {
		writeFile(t, filepath.Join(dir, "reports", name), text)
	}
	if err := os.Symlink("summar", filepath.Join(dir, "reports", "skills", "short")); err != nil {
		t.Skip(err)
	}
	m, err := i.Marketplace(t.Context(), Source{Kind: Folder, Name: dir})
	if err != nil || len(m.Plugins) != 1 || m.Plugins[0].Name != "reports" {
		t.Errorf("%+v, %v", m, err)
	}
	p, err := i.add(t, dir+"#reports")
	if err != nil || p.Run.Plugin == nil {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestPluginOfNPM places a plugin of npm in the root of its tree, and what it needs in its node_modules. A package that
// is run by its command line stays where npm places it.
func TestPluginOfNPM(t *testing.T) {
	files := plugin("reports")
	files["index.js"] = "#!/usr/bin/env node\n"
	files["package.json"] = `{"name": "@acme/reports", "version": "1.2.0", "bin": "index.js"}`
	release := registrytest.Release{Name: "@acme/reports", Version: "1.2.0", Files: files}
	npm := registrytest.NewNPM(t, release, left("1.0.0"), left("2.0.0"))
	i := newWorkbench(t)
	part := func(path, name, version string) lock.Part {
		r := release
		if name == "left" {
			r = left(version)
		}
		return lock.Part{
			Name:      name,
			Version:   version,
			URL:       npm.URL + "/" + name + "/-/" + version + ".tgz",
			Integrity: r.Hash(),
			Path:      path,
		}
	}
	parts := []lock.Part{
		part("node_modules/@acme/reports", "@acme/reports", "1.2.0"),
		part("node_modules/@acme/reports/node_modules/left", "left", "2.0.0"),
	}
	from := origin{registries: []string{npm.URL}}
	source, err := Parse("npm:@acme/reports")
	if err != nil {
		t.Fatal(err)
	}
	p, err := i.put(t.Context(), resolved{version: "1.2.0", parts: parts, from: from, source: source})
	if err != nil {
		t.Fatal(err)
	}
	dir, _, err := i.Store.Verify(p.Tree)
	if err != nil || p.Run.Plugin == nil || p.Parts[0].Path != "" || p.Parts[1].Path != "node_modules/left" {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, name := range []string{"plugin.json", "node_modules/left/index.js"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if now := (&Package{Parts: parts}); !now.Same(locked(p)) {
		t.Error("what npm resolves now differs from what is locked")
	}
	i.Programs = true
	p, err = i.put(t.Context(), resolved{version: "1.2.0", parts: parts, from: from, source: source})
	if err != nil || p.Run.Plugin != nil || p.Run.Command != "node" || p.Parts[0].Path == "" {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestAttacksPluginFolder: a folder that would cost much is refused before it is read. What only its skills do wrong
// is named, and the rest of the plugin is taken.
func TestAttacksPluginFolder(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("---\nname: s\ndescription: d\na0: &a0 [x, x]\n")
	for n := 1; n < 40; n++ {
		fmt.Fprintf(&bomb, "a%d: &a%d [*a%d, *a%d]\n", n, n, n-1, n-1)
	}
	bomb.WriteString("---\n")
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  string // what the error says; "" if it is added
	}{
		"1 GiB of SKILL.md": {func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, "skills", "summar", "SKILL.md"), 1<<30); err != nil {
				t.Fatal(err)
			}
		}, "SKILL.md, "},
		"many skills": {func(t *testing.T, dir string) {
			for i := range stormtest.Sized(50, 100_000) {
				writeFile(t, filepath.Join(dir, "skills", fmt.Sprint("s", i), "SKILL.md"), "---\n---\n")
			}
		}, stormtest.Sized("", "has over 50000 files")},
		"a YAML bomb": {func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, "skills", "s", "SKILL.md"), bomb.String())
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			i := newWorkbench(t)
			dir := filepath.Join(t.TempDir(), "reports")
			for name, text := range plugin("reports") {
				writeFile(t, filepath.Join(dir, name), text)
			}
			tt.spoil(t, dir)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p, err := i.add(t, dir)
			runtime.ReadMemStats(&after)
			if tt.want == "" {
				i.isPlugin(t, p, err, "reports")
			} else {
				i.refused(t, p, err, tt.want)
			}
			n := (after.TotalAlloc - before.TotalAlloc) >> 20
			if t.Logf("%d MiB allocated", n); n > 200 && !stormtest.Racing() {
				t.Errorf("%d MiB are allocated", n)
			}
		})
	}
}

// TestAttacksPlugin: what a hostile package holds is refused, and nothing is left of it.
func TestAttacksPlugin(t *testing.T) {
	with := func(more ...registrytest.Entry) []byte {
		return registrytest.TarGz(append(entries("reports/", plugin("reports")), more...)...)
	}
	for name, tt := range map[string]struct {
		archive []byte
		want    string
	}{
		"link out": {with(registrytest.Entry{Name: "reports/skills/x", Type: '2', Link: "/etc"}), "symbolic link"},
		"hard link": {with(registrytest.Entry{Name: "reports/bin/x", Type: '1', Link: "/etc/passwd"}),
			"hard link"},
		"absolute path": {with(registrytest.Entry{Name: "/etc/cron.d/x", Body: "x"}), "absolute path"},
		"path out":      {with(registrytest.Entry{Name: "reports/../../x", Body: "x"}), "leads out of the archive"},
		"bomb":          {with(registrytest.Entry{Name: "reports/x", Size: 200 << 20}), "too large"},
		"device":        {with(registrytest.Entry{Name: "reports/x", Type: '3'}), "a device"},
		"beside the folder": {with(registrytest.Entry{Name: "other/x", Body: "x"}),
			"there is no plugin.json"},
		"its name": {registrytest.TarGz(entries("", plugin("../evil"))...), "its plugin is rejected: the name"},
		"two manifests": {with(registrytest.Entry{Name: "reports/plugin.toml", Body: "x"}),
			"beside its plugin.json it has a plugin.toml"},
		"as if exthost had made it": {registrytest.TarGz(registrytest.Entry{Name: "plugin.toml", Body: manifest.TranslatedMark + "x\n[plugin]\n" +
			"id = \"x\"\nversion = \"1.0.0\"\n[transport]\nkind = \"lite\"\nscript = \"x.sh\"\n"}),
			"it has a plugin.toml of its own"},
		"no JSON": {registrytest.TarGz(registrytest.Entry{Name: "plugin.json", Body: agentplugin.PluginSchema}),
			"it is not a JSON object"},
		"another program's": {registrytest.TarGz(registrytest.Entry{Name: "plugin.json", Body: `{"name": "x"}`}),
			"there is no plugin.json of Agent Plugins, no manifest.json and no package.json, one of which would say " +
				"what it runs; of its plugin.json: $schema is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newWorkbench(t)
			at := filepath.Join(i.Dir, "reports.tar.gz")
			writeFile(t, at, string(tt.archive))
			p, err := i.add(t, at)
			i.refused(t, p, err, tt.want)
		})
	}
	i := newWorkbench(t)
	at := filepath.Join(i.Dir, "reports.zip")
	writeFile(t, at, string(registrytest.Zip(entries("", plugin("reports"))...)))
	p, err := i.add(t, at)
	if err != nil {
		t.Fatal(err)
	}
	e := locked(p)
	if _, err := i.Store.Remove(p.Tree); err != nil {
		t.Fatal(err)
	}
	writeFile(t, at, string(registrytest.Zip(entries("", plugin("reports2"))...)))
	if _, err := i.Fetch(t.Context(), e); err == nil || !strings.Contains(err.Error(), "its content has the hash") {
		t.Errorf("a changed archive: %v", err)
	}
	if p, err := i.Add(t.Context(), Source{Kind: Bundle, Name: at, Program: "x"}); err == nil {
		t.Errorf("a program of a plugin: %+v", p)
	}
}
