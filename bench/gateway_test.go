package bench_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// tbxarkVar names the variable with the path of TBXark's mcp-proxy. Without it, that gateway is left out.
const tbxarkVar = "EXTHOST_BENCH_TBXARK"

// gateway is a program that serves an echo tool over HTTP.
type gateway struct {
	name   string
	modern bool // speaks the newer revision of MCP
	start  func(tb testing.TB, revision string) (url, tool string)
}

// servers are the gateways; the first is a server without a gateway.
var servers = []gateway{
	{"no gateway: go-sdk over HTTP", true, startEcho},
	{"**exthost**, native child", true, startNative},
	{"**exthost**, go-sdk child", true, startGoSDK},
	{"TBXark mcp-proxy, go-sdk child", false, startTBXark},
}

func startEcho(tb testing.TB, revision string) (url, tool string) {
	path, env := processtest.Script(tb, "http "+revision)
	cmd := exec.Command(path)
	cmd.Env = env
	return startProgram(tb, cmd), "echo"
}

func startNative(tb testing.TB, _ string) (url, tool string) {
	return startExthost(tb, "extension", "native")
}

func startGoSDK(tb testing.TB, _ string) (url, tool string) {
	return startExthost(tb, "go-sdk", "mcp")
}

// programVar names the variable with the path of a built exthost.
const programVar = "EXTHOST_BENCH_PROGRAM"

// built is the directory of a program that the tests built and remove at the end.
var built string

// program returns the path in programVar, or builds exthost from this checkout, once.
var program = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(programVar); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "exthost")
	build := exec.Command("go", "build", "-o", path, "./cmd/exthost")
	build.Dir, build.Stderr = "..", os.Stderr
	return path, build.Run()
})

// startExthost runs exthost in a directory with one extension.
func startExthost(tb testing.TB, script, protocol string) (url, tool string) {
	tb.Helper()
	path, err := program()
	if err != nil {
		tb.Fatal(err)
	}
	exe, _ := processtest.Script(tb, script)
	dir := tb.TempDir()
	extension := filepath.Join(dir, "extensions", "x")
	if err := os.MkdirAll(extension, 0o755); err != nil {
		tb.Fatal(err)
	}
	text := fmt.Sprintf("[plugin]\nid = \"x\"\nversion = \"1.0.0\"\n[transport]\ncommand = %q\nprotocol = %q\nenv = "+
		"{ %s = %q }\n", exe, protocol, processtest.ScriptVar, script)
	if protocol == "native" {
		text += "[capabilities]\ntools = [\"echo\", \"write\"]\n"
	}
	if err := os.WriteFile(filepath.Join(extension, "plugin.toml"), []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(path, "serve", "--listen", "127.0.0.1:0", "--trust", "off")
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	return startProgram(tb, cmd), "ext_x_echo"
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+/mcp`)

// startProgram starts a server and returns the URL that it writes.
func startProgram(tb testing.TB, cmd *exec.Cmd) string {
	tb.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	err = cmd.Start()
	in.Close()
	if err != nil {
		tb.Fatal(err)
	}
	var reader sync.WaitGroup
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		reader.Wait()
		out.Close()
	})
	var said string
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		said += line
		if url := address.FindString(line); url != "" {
			reader.Go(func() { _, _ = io.Copy(io.Discard, lines) })
			return url
		}
		if err != nil {
			tb.Fatalf("%s serves nothing:\n%s", cmd.Path, said)
		}
	}
}

// startTBXark runs TBXark's mcp-proxy; without it, it returns "".
func startTBXark(tb testing.TB, _ string) (url, tool string) {
	tb.Helper()
	path := os.Getenv(tbxarkVar)
	if path == "" {
		return "", ""
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	exe, _ := processtest.Script(tb, "go-sdk")
	settings, err := json.Marshal(map[string]any{
		"mcpProxy": map[string]any{
			"baseURL": "http://" + addr,
			"addr":    addr,
			"name":    "bench",
			"version": "1",
			"type":    "streamable-http",
		},
		"mcpServers": map[string]any{
			"x": map[string]any{"command": exe, "env": map[string]string{processtest.ScriptVar: "go-sdk"}},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(tb.TempDir(), "config.json")
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(path, "--config", file)
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	url = "http://" + addr + "/x/mcp"
	tick := time.NewTicker(10 * time.Millisecond) // it does not say when it is ready
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		r, err := http.Get(url)
		if err == nil {
			r.Body.Close()
			if r.StatusCode != http.StatusNotFound {
				return url, "echo"
			}
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%s does not serve %s: %v", path, url, err)
		}
	}
}
