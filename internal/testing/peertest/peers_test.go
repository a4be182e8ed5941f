package peertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const peersVar = "EXTHOST_PEERS"

// peers is the directory that .ci/peers creates.
type peers string

// peerFiles are the files that the tests need.
var peerFiles = []string{
	"node_modules/.bin/node",
	"node_modules/.bin/inspector",
	"node_modules/.bin/conformance",
	"node_modules/.bin/mcp-server-everything",
	"node_modules/.bin/mcp-server-filesystem",
	"node_modules/.bin/mcp-server-memory",
	"node_modules/@modelcontextprotocol/sdk/package.json",
	"node_modules/@modelcontextprotocol/client/package.json",
	"venv/bin/mcp",
	"venv/bin/python3",
	"venv2/bin/python3",
	"venv3/bin/mcp-server-git",
	"venv3/bin/mcp-server-time",
}

// needPeers skips the test if the peers are not installed.
func needPeers(t *testing.T) peers {
	t.Helper()
	dir := os.Getenv(peersVar)
	if dir == "" {
		t.Skipf("%s is not set: install the MCP clients and servers with .ci/peers DIR and set it to DIR", peersVar)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	for _, name := range peerFiles {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		t.Skipf("%s=%s lacks %s: run .ci/peers %s", peersVar, dir, strings.Join(missing, ", "), dir)
	}
	return peers(dir)
}

// bin returns the path of an installed npm command.
func (p peers) bin(name string) string {
	return filepath.Join(string(p), "node_modules", ".bin", name)
}

// version returns a package and its version as it is installed: "npm NAME", "VENV NAME" of a virtual environment, or
// "go MODULE", which is that of go.mod.
func (p peers) version(t *testing.T, product string) string {
	t.Helper()
	from, name, _ := strings.Cut(product, " ")
	switch from {
	case "go":
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Path}} {{.Version}}", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	case "npm":
		var about struct{ Version string }
		text, err := os.ReadFile(filepath.Join(string(p), "node_modules", name, "package.json"))
		if err := errors.Join(err, json.Unmarshal(text, &about)); err != nil {
			t.Fatal(err)
		}
		return name + " " + about.Version
	}
	packages := filepath.Join(string(p), from, "lib", "python*", "site-packages")
	found, err := filepath.Glob(filepath.Join(packages, name+"-*.dist-info"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	version := strings.TrimPrefix(strings.TrimSuffix(filepath.Base(found[0]), ".dist-info"), name+"-")
	return name + " " + version + " (Python)"
}

// promptExit is the GORACE that avoids the race detector's delay of one second at exit.
const promptExit = "atexit_sleep_ms=0"

// environ returns the environment of programs: the peers' Node and Python come first on
// PATH, and HOME is home.
func (p peers) environ(home string) []string {
	path := []string{filepath.Join(string(p), "venv", "bin"), filepath.Dir(p.bin("node")), os.Getenv("PATH")}
	return []string{
		"PATH=" + strings.Join(path, string(os.PathListSeparator)),
		"HOME=" + home,
		"LANG=C.UTF-8",
		"GORACE=" + promptExit,
		fmt.Sprintf("%s=%s", peersVar, p),
	}
}
