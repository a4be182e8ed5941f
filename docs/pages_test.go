package docs_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance/celpolicy"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// TestPages runs every fenced block of every page, in order, in a directory of the
// page's own that holds a copy of the bundled extensions, and the examples. The checkout is
// beside it, at ../exthost. By
// language and info string a block is:
//
//	console            commands behind "$ " and what they print; needs=a,b skips the
//	                   rest of the page where a program is missing
//	LANG file=PATH     a file that the blocks below it use; Go is built beside it
//	toml, yaml         a manifest, or a part of one; a host configuration
//	json|toml client   how an MCP client is told of the host: it is done
//	text record=DIR    a command, and what passes between host and child meanwhile
//	text replay        a command, what it is told and what it answers
//	go                 a program whose last comment says what it prints
func TestPages(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the pages speak to a POSIX shell")
	}
	for _, p := range pages(t) {
		t.Run(p.path, func(t *testing.T) {
			t.Parallel()
			if p.path != "README.md" {
				processtest.Optional(t)
			}
			r := newRunner(t)
			for i := range p.blocks {
				b := &p.blocks[i]
				if b.shown != "" {
					continue
				}
				r.at = b
				r.require(b.attrs["needs"])
				r.run(b)
			}
		})
	}
}

// runner runs the blocks of one page.
type runner struct {
	*testing.T
	dir      string // the page's
	checkout string
	env      []string
	at       *block
	server   *server // nil until a block runs serve
	hub      string  // an address that is free
}

func newRunner(t *testing.T) *runner {
	dir := t.TempDir()
	r := &runner{
		T:   t,
		dir: filepath.Join(dir, "project"),
		hub: net.JoinHostPort("127.0.0.1", processtest.FreePorts(t, 1)[0]),
	}
	if err := os.CopyFS(filepath.Join(r.dir, "extensions"), os.DirFS(filepath.Join(root, "extensions"))); err != nil {
		t.Fatal(err)
	}
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	r.checkout = checkout
	for target, link := range map[string]string{
		checkout:                            filepath.Join(dir, "exthost"),
		filepath.Join(checkout, "examples"): filepath.Join(r.dir, "examples"),
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "EXTHOST_") && !strings.HasPrefix(v, "XDG_") && !strings.HasSuffix(v, "_API_KEY") {
			r.env = append(r.env, v)
		}
	}
	// What a page builds in Go, it builds of this checkout and the caches there are.
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
		value, err := goCommand("env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		r.env = append(r.env, name+"="+strings.TrimSpace(string(value)))
	}
	r.env = append(r.env, "GOPROXY=off", quickLinks, "HOME="+dir, "NO_COLOR=1", "EXTHOST_SERVER_LISTEN=127.0.0.1:0",
		"PATH="+filepath.Dir(program(t))+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return r
}

// fail ends the page at the block that is wrong.
func (r *runner) fail(format string, args ...any) {
	r.Helper()
	r.Fatalf("block of line %d: "+format, append([]any{r.at.line}, args...)...)
}

// require skips the rest of the page where a program is missing.
func (r *runner) require(needs string) {
	for name := range strings.SplitSeq(needs, ",") {
		if _, err := exec.LookPath(name); name != "" && err != nil {
			r.Skipf("NOT TESTED: %s from line %d on needs %s, which is missing", r.Name(), r.at.line, name)
		}
	}
}

func (r *runner) run(b *block) {
	r.Helper()
	switch {
	case b.has("file"):
		r.file(b)
	case b.has("client"):
		r.client(b)
	case b.has("record"):
		r.record(b)
	case b.has("replay"):
		r.replay(b)
	case b.lang == "console":
		r.console(b.text)
	case b.lang == "toml":
		r.manifest(b.text)
	case b.lang == "yaml":
		r.config("exthost.yaml", b.text)
	case b.lang == "go":
		r.program(b.text)
	default:
		r.fail("nothing checks %q; say what it is, or do without", b.lang)
	}
}

// file writes a file that a page shows, and checks it as what it is.
func (r *runner) file(b *block) {
	r.Helper()
	path := filepath.Join(r.dir, b.attrs["file"])
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.fail("%v", err)
	}
	if err := os.WriteFile(path, []byte(r.actual(b.text)), 0o755); err != nil {
		r.fail("%v", err)
	}
	switch name := filepath.Base(path); {
	case name == manifest.FileName:
		r.manifest(b.text)
	case name == "exthost.yaml" || name == "exthost.toml":
		r.config(name, b.text)
	case filepath.Ext(name) == ".go" && !b.has("unbuilt"): // the page builds the others itself
		dir := filepath.Dir(path)
		r.build(path, filepath.Join(dir, filepath.Base(dir)))
	}
}

// manifest checks a manifest; what a part of one leaves out is filled in.
func (r *runner) manifest(text string) {
	r.Helper()
	for _, table := range []struct{ name, text string }{
		{"[plugin]", "id = \"part\"\nversion = \"0.1.0\"\n"},
		{"[transport]", "command = \"./part\"\n"},
		{"[capabilities]", "tools = [\"part\"]\n"},
	} {
		needed := table.name != "[capabilities]" || !strings.Contains(text, "[transport]")
		if needed && !strings.Contains(text, table.name) && !strings.Contains(text, "[mcp_servers.") {
			text += "\n" + table.name + "\n" + table.text
		}
	}
	_, diags := manifest.Parse(manifest.FileName, []byte(text))
	r.clean(diags)
}

// config checks a host configuration.
func (r *runner) config(name, text string) {
	r.Helper()
	file := filepath.Join(r.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.fail("%v", err)
	}
	cfg, err := config.Load(config.LoadOptions{
		Dir:       r.TempDir(),
		File:      file,
		Environ:   []string{},
		UserDir:   "none",
		SystemDir: "none",
		CheckCEL:  celpolicy.Check,
	})
	if err != nil {
		r.fail("%v", err)
		return
	}
	r.clean(cfg.Warnings)
}

func (r *runner) clean(diags []protocol.Diagnostic) {
	r.Helper()
	for _, d := range diags {
		r.fail("%s: %s", d.Level, d)
	}
}

// program runs a Go program where the README says that it runs: in the checkout.
func (r *runner) program(text string) {
	r.Helper()
	_, want, ok := strings.Cut(text, "// Output:\n")
	if !ok {
		r.fail("the program does not say what it prints")
	}
	source := filepath.Join(r.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		r.fail("%v", err)
	}
	binary := filepath.Join(filepath.Dir(source), "program")
	r.build(source, binary)
	cmd := r.command(binary)
	out, err := cmd.Output()
	if err != nil {
		r.fail("%v\n%s", err, out)
	}
	want = strings.ReplaceAll("\n"+want, "\n// ", "\n")[1:]
	if !like(want, string(out)) {
		r.fail("it prints\n%s\nnot\n%s", out, want)
	}
}

func (r *runner) build(source, binary string) {
	r.Helper()
	if out, err := goCommand("build", "-o", binary, source).CombinedOutput(); err != nil {
		r.fail("%v\n%s", err, out)
	}
	if out, err := goCommand("vet", source).CombinedOutput(); err != nil {
		r.fail("%v\n%s", err, out)
	}
}

func (r *runner) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.Context(), name, args...)
	cmd.Dir, cmd.Env = r.dir, r.env
	return cmd
}

// quickLinks leaves out what a debugger needs, which takes half of the time to link.
const quickLinks = "GOFLAGS=-ldflags=-w"

// goCommand runs the go command in the checkout, where the imports of a file
// that lies elsewhere are those of this module.
func goCommand(args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), quickLinks)
	return cmd
}

// program returns the path of the built program.
func program(t testing.TB) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "exthost")
}

func TestMain(m *testing.M) { os.Exit(processtest.Sharded(m).Run()) }

// built is the directory with the programs that the pages run.
var built = sync.OnceValues(func() (string, error) {
	return processtest.Build("-ldflags=-w", "./cmd/exthost", "./examples/agent-go")
})
