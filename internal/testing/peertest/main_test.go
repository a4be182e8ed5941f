package peertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
)

// patience bounds every wait of a test; no wait takes that long.
const patience = 60 * time.Second

// program is the exthost under test, built from this checkout.
var program string

func TestMain(m *testing.M) {
	if _, child := os.LookupEnv(processtest.ScriptVar); child {
		processtest.Main(m, map[string]processtest.Verb{
			"approve":      func(string) { approve() },
			"signinClient": func(string) { signInClient() },
			"goClient": func(string) {
				if err := goClient(); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			},
			"usingClient": func(string) {
				if err := useEverything(os.Args[len(os.Args)-1]); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			},
			"raw":      serveRaw,
			"tasks":    func(string) { serveTasks() },
			"lite":     func(string) { serveLite() },
			"native":   func(string) { os.Exit(nativeEcho().Main()) },
			"official": func(string) { serveOfficial() },
		})
	}
	os.Exit(run(m))
}

// run builds the program and runs the tests. Without peers it builds nothing and the tests
// skip.
func run(m *testing.M) int {
	if os.Getenv(peersVar) == "" && os.Getenv(wildVar) == "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "exthost-peertest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "exthost")
	build := exec.Command("go", "build", fmt.Sprintf("-race=%t", stormtest.Racing()), "-o", program,
		"github.com/exthost/exthost/cmd/exthost")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s", build, err, out)
		return 1
	}
	return m.Run()
}
