package peertest

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// everythingServer is the official SDK's server for the conformance suite, built from the
// module cache.
const everythingServer = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"

var (
	// total matches the line that counts the suite's tests.
	total = regexp.MustCompile(`(?m)^Total: ([1-9]\d*) passed, (\d+) failed`)
	// unscored matches the line about those that the revision does not require.
	unscored = regexp.MustCompile(`(?m)^Not scored for .*\.$`)
)

// TestConformance runs the official conformance suite through the host: with a child on
// stdio that supports legacy and modern versions, and with one HTTP server for each. The exit status covers
// the scored scenarios only.
func TestConformance(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, dir)
	server := buildEverything(t)
	extensions := folder(dir)
	extensions.add(t, "child", fmt.Sprintf("command = %q\nprotocol = \"mcp\"", server))
	extensions.add(t, "sessions", fmt.Sprintf("url = %q", serveEverything(t, server, "-stateless=false")))
	extensions.add(t, "stateless", fmt.Sprintf("url = %q", serveEverything(t, server, "-stateless=true")))
	url := h.listen(t)
	for _, c := range []struct{ id, revision string }{
		{"child", "2025-11-25"}, {"child", "2026-07-28"}, {"sessions", "2025-11-25"}, {"stateless", "2026-07-28"},
	} {
		t.Run(c.id+"/"+c.revision, func(t *testing.T) {
			h.conforms(t, url+"/"+c.id+"/mcp", c.revision)
		})
	}
}

// buildEverything builds the suite's server and returns its path.
func buildEverything(t *testing.T) string {
	t.Helper()
	server := filepath.Join(t.TempDir(), "everything-server")
	if out, err := exec.Command("go", "build", "-o", server, everythingServer).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return server
}

// conforms runs the suite against the server at url, and fails the test if a scored scenario fails.
// It returns the line that counts the tests, and the directory with the outcome of each scenario.
func (h *host) conforms(t *testing.T, url, revision string) (counts, results string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	results = t.TempDir()
	cmd := exec.CommandContext(ctx, h.peers.bin("node"), h.peers.bin("conformance"), "server", "--url", url,
		"--requirements", revision, "--output-dir", results)
	cmd.Dir, cmd.Env = t.TempDir(), h.peers.environ(h.home)
	out, err := cmd.CombinedOutput()
	counts = string(total.Find(out))
	if err != nil || counts == "" {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s. %s", counts, unscored.Find(out))
	return counts, results
}

// serveEverything runs the server over HTTP until the test ends and returns its URL.
func serveEverything(t *testing.T, server, mode string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	cmd := exec.Command(server, "-http", address, mode)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); ; {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return "http://" + address + "/mcp"
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s does not listen", server)
		}
	}
}
