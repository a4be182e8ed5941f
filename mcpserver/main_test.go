package mcpserver_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/mcpserver"
)

// childEnv is the variable that makes the test binary a stdio server.
const childEnv = "MCPSERVER_TEST_STDIO"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		processtest.Exit(serveChild())
	}
	code := m.Run()
	if left := leftBehind(5 * time.Second); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left behind:\n\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

func serveChild() int {
	s := mcpserver.New(newFake(), mcpserver.Options{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err := s.ServeStdio(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// leftBehind returns the stacks of this package's goroutines that still run after the given time.
func leftBehind(within time.Duration) string {
	deadline := time.After(within)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var ours []string
		buf := make([]byte, 1<<20)
		for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack, "exthost/mcpserver.") || strings.Contains(stack, "exthost/internal/") {
				ours = append(ours, stack)
			}
		}
		if len(ours) == 0 {
			return ""
		}
		select {
		case <-deadline:
			return strings.Join(ours, "\n\n")
		case <-tick.C:
		}
	}
}
