package hosts

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/manifest/agentplugin"
)

// packageCase is a file of testdata/agent-plugins.
type packageCase struct {
	Section string
	Says    string
	Files   map[string]json.RawMessage
	Folders []string
	Links   map[string]string
	Outside map[string]json.RawMessage
	Report  packageReport
	Launch  map[string]launched
}

type packageReport struct {
	Plugin  agentplugin.Identity
	Servers map[string]string // ok, or the section that makes it invalid
	Skills  map[string]string
	Notes   []string // sections
}

type launched struct {
	Args []string
	Env  map[string]string
	Cwd  string
}

const packages = "../../../testdata/agent-plugins"

// TestAgentPlugins reads every package of testdata/agent-plugins. The name of a case begins with the section of the
// specification that it is about.
func TestAgentPlugins(t *testing.T) {
	names, err := filepath.Glob(packages + "/*.json")
	if err != nil || len(names) < 120 {
		t.Fatalf("%d packages, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var c packageCase
			if err := json.Unmarshal(text, &c); err != nil {
				t.Fatal(err)
			}
			dir := c.write(t)
			p := ReadPlugin(dir)
			if diff := cmp.Diff(c.Report, reportOf(p)); diff != "" {
				t.Errorf("%s\nreport (-want +got):\n%s%+v", c.Says, diff, p)
			}
			for name, want := range c.Launch {
				got := launch(t, p, dir, name)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s\nlaunch of %s (-want +got):\n%s", c.Says, name, diff)
				}
			}
		})
	}
}

// write writes the package below a new directory and returns its root.
func (c *packageCase) write(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "package")
	for _, folder := range append(c.Folders, ".") {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, place := range []struct {
		dir   string
		files map[string]json.RawMessage
	}{{dir, c.Files}, {top, c.Outside}} {
		for name, content := range place.files {
			var text string
			if json.Unmarshal(content, &text) != nil {
				text = string(content)
			}
			path := filepath.Join(place.dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, target := range c.Links {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.FromSlash(target), path); err != nil {
			if runtime.GOOS != "windows" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	return dir
}

func reportOf(p *agentplugin.Plugin) packageReport {
	r := packageReport{
		Plugin:  p.Identity,
		Servers: map[string]string{},
		Skills:  map[string]string{},
		Notes:   []string{},
	}
	verdict := func(valid bool, section string) string {
		if valid {
			return "ok"
		}
		return section
	}
	for _, s := range p.Servers {
		r.Servers[s.Name] = verdict(s.Valid, s.Section)
	}
	for _, s := range p.Skills {
		r.Skills[s.Name] = verdict(s.Valid, s.Section)
	}
	for _, n := range p.Notes {
		r.Notes = append(r.Notes, n.Section)
	}
	return r
}

// launch returns what a server is started with, its paths replaced as in the packages.
func launch(t *testing.T, p *agentplugin.Plugin, dir, name string) launched {
	t.Helper()
	root, err := agentplugin.Root(dir)
	if err != nil {
		t.Fatal(err)
	}
	data, err := agentplugin.Root(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	transport := p.Manifest.MCPServers[name].Transport()
	transport.Literal = true
	transport, err = agentplugin.Launch(transport, root, data)
	if err != nil {
		t.Fatal(err)
	}
	shown := strings.NewReplacer(root, "<root>", data, "<data>", string(filepath.Separator), "/")
	l := launched{Args: []string{}, Env: map[string]string{}, Cwd: shown.Replace(transport.Cwd)}
	for _, arg := range transport.Args {
		l.Args = append(l.Args, shown.Replace(arg))
	}
	for name, value := range transport.Env {
		l.Env[name] = shown.Replace(value)
	}
	return l
}

// peerCase is the outcome of a package in another implementation's corpus.
type peerCase struct {
	Outcome string // loaded or rejected
	Name    string
	Skills  []string // that are valid
	MCP     string   // absent, configured or disabled
	Servers []string // that are valid
}

// TestAgentPluginsOfAPeer reads the packages of another implementation: fixtures/cases of the crate agent-plugins, in
// the directory EXTHOST_AGENT_PLUGINS.
func TestAgentPluginsOfAPeer(t *testing.T) {
	dir := os.Getenv("EXTHOST_AGENT_PLUGINS")
	if dir == "" {
		t.Skip("NOT TESTED: EXTHOST_AGENT_PLUGINS names no directory with packages of another implementation")
	}
	names, err := filepath.Glob(dir + "/*/expected.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no packages in %s, %v", dir, err)
	}
	for _, name := range names {
		t.Run(filepath.Base(filepath.Dir(name)), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			want := peerCase{}
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			root := filepath.Join(filepath.Dir(name), "plugin")
			p := ReadPlugin(root)
			got := peerCase{Outcome: "loaded", Name: p.Identity.Name, MCP: "configured"}
			r := reportOf(p)
			valid := func(of map[string]string) (list []string) {
				for _, name := range slices.Sorted(maps.Keys(of)) {
					if of[name] == "ok" {
						list = append(list, name)
					}
				}
				return list
			}
			got.Skills, got.Servers = valid(r.Skills), valid(r.Servers)
			if p.Identity.Rejected {
				got = peerCase{Outcome: "rejected"}
			} else if _, err := os.Lstat(filepath.Join(root, agentplugin.ServersName)); err != nil {
				got.MCP = "absent"
			} else if p.Manifest.MCPServers == nil {
				got.MCP = "disabled"
			}
			slices.Sort(want.Servers)
			if len(want.Skills) == 0 {
				want.Skills = nil
			}
			if len(want.Servers) == 0 {
				want.Servers = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s%+v", diff, p)
			}
		})
	}
}
