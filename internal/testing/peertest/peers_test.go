package peertest

import (
	"fmt"
	"os"
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
