package peertest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
)

// patience bounds every wait of a test; no wait takes that long.
const patience = 2 * time.Minute

// built is the directory with the exthost of this checkout.
var built = sync.OnceValues(func() (string, error) {
	return processtest.Build(fmt.Sprintf("-race=%t", stormtest.Racing()), "-ldflags=-w", "./cmd/exthost")
})

// program returns the path of the exthost under test.
func program(t *testing.T) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "exthost")
}

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
	os.Exit(processtest.Sharded(m, "TestClientsAreAsked").Run())
}
