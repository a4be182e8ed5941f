package serve

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
)

// The greeting replaces the log of the start on stderr, but not in the file.
func TestLogAfterGreeting(t *testing.T) {
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "log")
	c := &console.Console{Err: &out}
	defer c.Close()
	var shown slog.LevelVar
	shown.Set(console.Silent)
	log, err := c.Logger(config.Log{Level: "info", Format: "text", File: file, MaxSize: 1 << 20, Keep: 1}, &shown)
	if err != nil {
		t.Fatal(err)
	}
	log = log.With("extension", "kit")
	log.Error("before")
	shown.Set(slog.LevelInfo)
	log.Error("after")
	if strings.Contains(out.String(), "before") || !strings.Contains(out.String(), "after") {
		t.Errorf("on stderr: %s", &out)
	}
	if kept, err := os.ReadFile(file); err != nil || !strings.Contains(string(kept), "before") ||
		!strings.Contains(string(kept), "after") {
		t.Errorf("in the file: %s %v", kept, err)
	}
}
