package peertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// The graph of npm's server-memory survives restarts, an upgrade, a fetch of the locked version, and the removal of the
// package: in the place that exthost add chooses, and beside the code, where the server has it by default.
func TestGraphOutlivesItsPackage(t *testing.T) {
	if os.Getenv(wildVar) == "" {
		t.Skipf("NOT TESTED: %s installs from npm's registry for minutes; %s asks for it", t.Name(), wildVar)
	}
	p := needPeers(t)
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skipf("NOT TESTED: %s needs npm, which is missing", t.Name())
	}
	if out, err := exec.Command("npm", "view", "@modelcontextprotocol/server-memory",
		"version").CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: %s needs npm's registry, which does not answer: %v %s", t.Name(), err, out)
	}
	processtest.Leaks(t)
	for _, place := range []string{"in its state directory", "beside its code"} {
		t.Run(place, func(t *testing.T) {
			if place == "beside its code" && os.Geteuid() != 0 {
				t.Skipf("NOT TESTED: %s: the files of a package are read-only for all but root", t.Name())
			}
			dir, home := t.TempDir(), t.TempDir()
			run := func(args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), program(t), args...)
				cmd.Dir, cmd.Env = dir, append(p.environ(home), "XDG_STATE_HOME="+filepath.Join(home, "state"),
					"EXTHOST_TRUST=")
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
				}
				return string(out)
			}
			t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", home).Run() }) // read-only directories
			// A package that an older exthost has added sets no variable.
			add := func(age string) {
				run("add", "npm:@modelcontextprotocol/server-memory", "--min-release-age", age, "--yes")
				if place == "in its state directory" {
					return
				}
				path := filepath.Join(dir, "extensions", "memory", "plugin.toml")
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path,
					regexp.MustCompile(`(?m)^("MEMORY_FILE_PATH"|cwd) = .*\n`).ReplaceAll(text, nil),
					0o644); err != nil {
					t.Fatal(err)
				}
				run("trust", "--lock", "--all", "--yes")
			}
			whole := func(after string) {
				t.Helper()
				if n := strings.Count(run("call", "ext_memory_read_graph"), `"name": "e`); n != 200 {
					t.Fatalf("after %s the graph has %d entities of 200", after, n)
				}
			}
			add("3600h")
			for n := range 20 { // each starts the server
				entities := make([]string, 10)
				for i := range entities {
					entities[i] = fmt.Sprintf(`{"name": "e%d", "entityType": "number", "observations": ["seen"]}`,
						10*n+i)
				}
				run("call", "ext_memory_create_entities", "-d", `{"entities": [`+strings.Join(entities, ", ")+`]}`)
			}
			whole("20 restarts")
			if out := run("upgrade", "memory", "--min-release-age", "0s", "--yes"); !strings.Contains(out,
				"upgraded memory") {
				t.Errorf("there is one version: %s", out)
			}
			whole("the upgrade")
			run("add", "--locked")
			whole("fetching what is locked")
			run("remove", "memory")
			add("0s")
			whole("removing and adding it")
		})
	}
}
