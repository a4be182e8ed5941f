package toolsets

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

const root = "../.."

// recorded returns the catalog of these servers, whose tools were recorded, and their versions.
func recorded(t *testing.T, ids ...string) (*tools.Catalog, map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "tools", "testdata", "servers.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Servers []struct {
			ID, Package, Version string
			Tools                []json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var sources []tools.Source
	versions := make(map[string]string)
	for _, s := range file.Servers {
		if !slices.Contains(ids, s.ID) {
			continue
		}
		source := tools.Source{Extension: s.ID}
		for _, raw := range s.Tools {
			source.Tools = append(source.Tools, protocol.Tool{Raw: raw})
		}
		sources, versions[s.ID] = append(sources, source), s.Package+" "+s.Version
	}
	if len(sources) != len(ids) {
		t.Fatalf("%d servers of %q are recorded", len(sources), ids)
	}
	catalog, _ := tools.NewCatalog(1, sources, nil)
	return catalog, versions
}

// TestTokensOfFiveServers prints the tokens of the tools of five real servers, as they list them and as the toolset
// shows them. Every pattern, tool and argument of the toolset is there, and the page on toolsets has the figures.
func TestTokensOfFiveServers(t *testing.T) {
	cfg, err := config.Load(config.LoadOptions{Dir: ".", UserDir: "none", SystemDir: "none", Environ: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{"github", "playwright", "filesystem", "notion", "atlassian"}
	catalog, versions := recorded(t, ids...)
	var all []toolset.Extension
	for _, id := range ids {
		all = append(all, toolset.Extension{ID: id})
	}
	shown, wrong := toolset.Preview(cfg.Toolsets["work"], catalog, all)
	if len(wrong) > 0 {
		t.Fatalf("%+v", wrong)
	}
	lines := []string{
		"| server | tools | tokens | in the toolset | tokens as they are | tokens as they are shown |",
		"|---|---:|---:|---:|---:|---:|",
	}
	row := func(name string, all, after []*tools.Entry) {
		was := make([]*tools.Entry, len(after))
		for i, e := range after {
			was[i] = e.Original()
		}
		lines = append(lines, fmt.Sprintf("| %s | %d | %d | %d | %d | %d |", name, len(all), tokens(all), len(after),
			tokens(was), tokens(after)))
	}
	for _, id := range ids {
		after := slices.DeleteFunc(slices.Clone(shown), func(e *tools.Entry) bool { return e.Extension != id })
		row(versions[id], catalog.Extension(id), after)
	}
	row("all five", catalog.Entries(), shown)
	t.Logf("\n%s", strings.Join(lines, "\n"))
	page, err := os.ReadFile(filepath.Join(root, "docs", "serve.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), strings.Join(lines, "\n")) {
		t.Error("docs/serve.md has other figures")
	}
	if out, omitted := tools.Export(tools.Anthropic, shown); len(omitted) > 0 || !json.Valid(out) {
		t.Errorf("a vendor would not take %+v", omitted)
	}
}

func tokens(list []*tools.Entry) (sum int) {
	for _, e := range list {
		sum += e.Tokens()
	}
	return sum
}
