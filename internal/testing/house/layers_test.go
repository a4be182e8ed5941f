package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/exthost/exthost"

// layers are the areas of the code, from the bottom up. An area is a folder with all that is below it and is not an
// area of its own; "" is the root package. A package imports its own area and those of lower layers.
var layers = [][]string{
	{"protocol", "internal/concurrent", "internal/file"},
	{"internal/text", "supervisor"},
	{"governance", "manifest"},
	{"discovery", "internal/proc"},
	{"hooks", "internal/wire"},
	{"internal/secret", "mcpserver", "sdk", "status", "tools"},
	{"internal/listing", "internal/observe", "internal/recording", "peers"},
	{"config", "runtime"},
	{"internal/supply", "cluster", "governance/grpcpolicy"},
	{"internal/host", "internal/local"},
	{""},
	{"internal/authoring", "httpserver"},
	{"internal/cli"},
	{"cmd"},
	{"internal/testing", "test", "docs", "examples", "extensions"},
}

// layer returns the area of a package and the number of its layer, -1 for none.
func layer(pkg string) (area string, number int) {
	number = -1
	for n, areas := range layers {
		for _, a := range areas {
			if (pkg == a || a != "" && strings.HasPrefix(pkg, a+"/")) && (number < 0 || len(a) > len(area)) {
				area, number = a, n
			}
		}
	}
	return area, number
}

func TestLayers(t *testing.T) {
	_, packages := list(t)
	for _, p := range packages {
		area, number := layer(name(p.ImportPath))
		if number < 0 {
			t.Errorf("package %s is in no area: put it below one, or add an area to the layers", name(p.ImportPath))
			continue
		}
		for _, path := range p.Imports {
			if path != module && !strings.HasPrefix(path, module+"/") {
				continue
			}
			imported, lower := layer(name(path))
			if imported != area && lower >= number {
				t.Errorf("package %q imports %q, whose area is not below its own", name(p.ImportPath), name(path))
			}
			if imported != area && slices.Contains(workers, area) && slices.Contains(workers, imported) {
				t.Errorf("package %q imports %q: workers know nothing of each other", name(p.ImportPath), name(path))
			}
			if isCommand(name(p.ImportPath)) && isCommand(name(path)) && !slices.Contains(shared, name(path)) {
				t.Errorf("package %q imports %q: commands share nothing but %q", name(p.ImportPath), name(path), shared)
			}
		}
	}
}

// workers are the areas that the root and internal/host wire together.
var workers = []string{"discovery", "runtime", "supervisor", "tools", "hooks", "governance"}

func isCommand(pkg string) bool { return strings.HasPrefix(pkg, "internal/cli/") }

// shared are the packages of commands that other commands may import.
var shared = []string{
	"internal/cli/console",
	"internal/cli/hosts",
	"internal/cli/toolcall",
	"internal/cli/traces",
	"internal/cli/trust",
}

// name returns the path of a package within the module.
func name(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

// heavy are modules that a Go program gets only when it asks for them: by exthost.PolicyKinds, by mounting the HTTP
// server, or by stores of secrets and logins.
var heavy = []string{
	"cel.dev",
	"charm.land",
	"filippo.io",
	"github.com/antlr4-go",
	"github.com/charmbracelet",
	"github.com/godbus",
	"github.com/modelcontextprotocol",
	"github.com/nats-io",
	"github.com/prometheus",
	"github.com/spf13",
	"github.com/zalando",
	"go.opentelemetry.io",
	"golang.org/x/oauth2",
	"google.golang.org",
}

func TestLibraryLinksNoHeavyModule(t *testing.T) {
	for _, pkg := range []string{".", "./config", "./mcpserver"} {
		out, err := exec.Command("go", "list", "-deps", pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		for path := range strings.Lines(string(out)) {
			if slices.ContainsFunc(heavy, func(prefix string) bool { return strings.HasPrefix(path, prefix+"/") }) {
				t.Errorf("package %s links %s", pkg, path)
			}
		}
	}
}

// TestNoTemplates checks that nothing executes templates, of text or, by cobra, of help. A program that does may call
// methods by name, so that the linker keeps every exported one: 6 MB of exthost.
func TestNoTemplates(t *testing.T) {
	_, packages := list(t)
	for _, p := range packages {
		for _, path := range []string{"text/template", "html/template"} {
			if slices.Contains(p.Imports, path) {
				t.Errorf("package %q imports %s", name(p.ImportPath), path)
			}
		}
		if !slices.Contains(p.Imports, "github.com/spf13/cobra") {
			continue
		}
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range []string{"SetUsageTemplate(", "SetHelpTemplate(", "SetVersionTemplate("} {
				if strings.Contains(string(text), call) {
					t.Errorf("%s/%s calls %s)", name(p.ImportPath), file, call)
				}
			}
		}
	}
}

// slimmed are modules that a slim build of the program leaves out.
var slimmed = []string{
	"cel.dev",
	"charm.land",
	"github.com/antlr4-go",
	"github.com/nats-io/nats-server",
	"github.com/prometheus",
	"go.opentelemetry.io",
	"google.golang.org",
}

func TestSlimProgramLinksNoHeavyModule(t *testing.T) {
	out, err := exec.Command("go", "list", "-tags", "slim", "-deps", "./cmd/exthost").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for path := range strings.Lines(string(out)) {
		if slices.ContainsFunc(slimmed, func(prefix string) bool { return strings.HasPrefix(path, prefix+"/") }) {
			t.Errorf("a slim exthost links %s", path)
		}
	}
}
