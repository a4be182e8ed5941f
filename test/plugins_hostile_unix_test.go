//go:build unix

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/status"
)

// attack writes a hostile plugin.
type attack func(a *attacker)

// attacker is where an [attack] writes, and what it tries to run.
type attacker struct {
	*testing.T
	dir, name string // the folder and the name of the plugin
	evil      string // a program that leaves a mark when it runs
}

func (a *attacker) write(name, text string) {
	a.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		a.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		a.Fatal(err)
	}
}

func (a *attacker) link(target, name string) {
	a.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(a.dir, name)), 0o755); err != nil {
		a.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(a.dir, name)); err != nil {
		a.Fatal(err)
	}
}

func (a *attacker) fifo(name string) {
	a.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(a.dir, name)), 0o755); err != nil {
		a.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(a.dir, name), 0o644); err != nil {
		a.Fatal(err)
	}
}

// huge writes a sparse file of 1 GiB.
func (a *attacker) huge(name string) {
	a.Helper()
	a.write(name, "")
	if err := os.Truncate(filepath.Join(a.dir, name), 1<<30); err != nil {
		a.Fatal(err)
	}
}

// manifest writes a valid plugin.json with more fields.
func (a *attacker) manifest(more string) {
	a.Helper()
	a.write("plugin.json", `{"$schema": "`+agentplugin.PluginSchema+`", "name": "`+a.name+`"`+more+"}")
}

// server writes a valid plugin.json, and an mcp.json with one server of these fields.
func (a *attacker) server(fields string) {
	a.Helper()
	a.manifest("")
	a.write("mcp.json", `{"$schema": "`+agentplugin.ServersSchema+
		`", "mcpServers": {"evil": {"type": "stdio", `+fields+"}}}")
}

// command writes a server whose command is text.
func command(text string) attack {
	return func(a *attacker) { a.server(fmt.Sprintf(`"command": %q`, strings.ReplaceAll(text, "EVIL", a.evil))) }
}

func cwd(text string) attack {
	return func(a *attacker) {
		a.server(fmt.Sprintf(`"command": "sh", "args": ["-c", %q], "cwd": %q`, a.evil, text))
	}
}

var attacks = map[string]attack{
	"line":          command("EVIL now"),
	"shell":         command("sh -c EVIL"),
	"absolute":      command("EVIL"),
	"climb":         command("./../evil"),
	"deep-climb":    command("./a/b/../../../evil"),
	"home":          command("~/evil"),
	"placeholder":   command("${PLUGIN_ROOT}/../evil"),
	"backslash":     command(`..\evil`),
	"substitution":  command("$(EVIL)"),
	"command-link":  func(a *attacker) { a.server(`"command": "./run"`); a.link(a.evil, "run") },
	"folder-link":   func(a *attacker) { a.server(`"command": "./bin/evil"`); a.link(filepath.Dir(a.evil), "bin") },
	"cwd-absolute":  cwd("/"),
	"cwd-climb":     cwd("./.."),
	"cwd-root":      cwd("${PLUGIN_ROOT}/.."),
	"cwd-data":      cwd("${PLUGIN_DATA}/../other"),
	"cwd-home":      cwd("${HOME}"),
	"cwd-link":      func(a *attacker) { cwd("./away")(a); a.link("/", "away") },
	"reserved":      func(a *attacker) { a.server(`"command": "sh", "env": {"PLUGIN_DATA": "/"}`) },
	"odd-env":       func(a *attacker) { a.server(`"command": "sh", "env": {"A=B": "c"}`) },
	"twins":         func(a *attacker) { a.server(`"command": "sh"}, "Evil": {"type": "stdio", "command": "sh"`) },
	"twice":         func(a *attacker) { a.server(`"command": "sh"}, "evil": {"type": "stdio", "command": "sh"`) },
	"command-twice": func(a *attacker) { a.server(fmt.Sprintf(`"command": "sh", "command": %q`, a.evil)) },
	"inline":        func(a *attacker) { a.manifest(fmt.Sprintf(`, "mcpServers": {"a": {"command": %q}}`, a.evil)) },
	"manifest-link": func(a *attacker) { a.write("../m.json", `{"name": "m"}`); a.link("../m.json", "plugin.json") },
	"servers-link":  func(a *attacker) { a.manifest(""); a.write("../s.json", "{}"); a.link("../s.json", "mcp.json") },
	"skills-link":   func(a *attacker) { a.manifest(""); a.link("/", "skills") },
	"tables-link":   func(a *attacker) { a.manifest(""); a.link("/etc/hosts", agentplugin.Namespace+"/tables.toml") },
	"fifo":          func(a *attacker) { a.fifo("plugin.json") },
	"servers-fifo":  func(a *attacker) { a.manifest(""); a.fifo("mcp.json") },
	"skills-fifo":   func(a *attacker) { a.manifest(""); a.fifo("skills") },
	"skill-fifo":    func(a *attacker) { a.manifest(""); a.fifo("skills/s/SKILL.md") },
	"tables-fifo":   func(a *attacker) { a.manifest(""); a.fifo(agentplugin.Namespace + "/tables.toml") },
	"huge":          func(a *attacker) { a.huge("plugin.json") },
	"huge-servers":  func(a *attacker) { a.manifest(""); a.huge("mcp.json") },
	"huge-skill":    func(a *attacker) { a.manifest(""); a.huge("skills/s/SKILL.md") },
	"deep":          func(a *attacker) { a.manifest(`, "x": ` + strings.Repeat("[", 1e5) + strings.Repeat("]", 1e5)) },
	"many-servers": func(a *attacker) {
		a.server(strings.Repeat(`"command": "sh"}, "a": {"type": "stdio",`, 5000) + `"command": "sh"`)
	},
	"bomb": func(a *attacker) {
		a.manifest("")
		text := "---\nname: s\na: &a [x, x]\n"
		for c := 'b'; c <= 'z'; c++ {
			text += fmt.Sprintf("%c: &%c [*%c, *%c]\n", c, c, c-1, c-1)
		}
		a.write("skills/s/SKILL.md", text+"description: *z\n---\n")
	},
	"many-skills": func(a *attacker) {
		a.manifest("")
		a.write("skills/s/SKILL.md", "---\nname: s\ndescription: d\n---\n")
		for i := range stormtest.Sized(2000, 100_000) {
			a.link("s", fmt.Sprintf("skills/s%d", i))
		}
	},
	"misspelt": func(a *attacker) {
		a.server(fmt.Sprintf(`"command": "sh", "args": ["-c", %q]`, a.evil))
		a.manifest(`, "extensions": {"io.github.exthost": {"sandbox": {"net": "none", "wirte": []}}}`)
	},
	"reserved-name": func(a *attacker) { a.name = "../x"; a.manifest("") },
}

// TestHostilePlugins opens a host over plugins that try to run what they may not, to read what is not theirs, or to
// cost the host time and memory. Nothing of them runs, and a plugin beside them does.
func TestHostilePlugins(t *testing.T) {
	processtest.Leaks(t)
	f := newPlugin(t, "good", nil)
	f.stdio("db", nil, nil)
	marks := t.TempDir()
	evil := filepath.Join(t.TempDir(), "evil")
	if err := os.WriteFile(evil, []byte("#!/bin/sh\ntouch "+marks+"/ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, write := range attacks {
		write(&attacker{T: t, dir: filepath.Join(f.Dir, name), name: name, evil: evil})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	h := f.Open(exthost.Options{})
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	t.Logf("%d hostile plugins: %v, %d MiB allocated", len(attacks), took, (after.TotalAlloc-before.TotalAlloc)>>20)
	if s := look(t, h, "ext_good_db_look"); s.Cwd == "" {
		t.Errorf("%+v", s)
	}
	if names := hosttest.Names(h); !slices.Equal(names, []string{"ext_good_db_keep", "ext_good_db_look"}) {
		t.Errorf("tools %q", names)
	}
	for _, x := range h.Status().Extensions {
		if len(x.Command) > 0 && x.ID != "good.db" && x.State != status.StateSkipped {
			t.Errorf("%s would run %q", x.ID, x.Command)
		}
	}
	if _, err := os.Stat(filepath.Join(marks, "ran")); err == nil {
		t.Error("the program of an attacker ran")
	}
	// With the race detector the same code allocates several times as much.
	if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 100 && !stormtest.Racing() {
		t.Errorf("reading hostile plugins allocates %d MiB", n)
	}
	if stormtest.Full && took > 2*time.Second {
		t.Errorf("reading hostile plugins takes %v", took)
	}
}
