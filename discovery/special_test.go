//go:build unix

package discovery

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestFIFOBlocksNothing(t *testing.T) {
	tree(t, map[string]string{"ext/good/plugin.toml": valid("good")})
	for _, dir := range []string{"ext/fifo", "ext/socket", "ext/dir/plugin.toml", "ext/sidecar"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, "ext/sidecar/plugin.toml", valid("sidecar"))
	for _, path := range []string{"ext/fifo/plugin.toml", "ext/sidecar/.mcp.json"} {
		if err := syscall.Mkfifo(path, 0o644); err != nil {
			t.Skip(err)
		}
	}
	l, err := net.Listen("unix", filepath.Join("ext", "socket", "plugin.toml"))
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	expect(t, discover(t, Options{}), []string{"good ext/good/plugin.toml", "sidecar ext/sidecar/plugin.toml"},
		[]string{
			"error not_regular ext/dir/plugin.toml", "error not_regular ext/fifo/plugin.toml",
			"error not_regular ext/sidecar/.mcp.json", "error not_regular ext/socket/plugin.toml"})
}
