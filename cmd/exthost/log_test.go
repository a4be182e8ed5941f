package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
)

// TestT14Log keeps what extensions say from the terminal's interpreter.
func TestT14Log(t *testing.T) {
	var out bytes.Buffer
	a := &app{err: &out}
	log, err := a.logger(config.Log{Level: "info", Format: "text"})
	if err != nil {
		t.Fatal(err)
	}
	log.With("who", "\x1b[1m").Warn("clear \x1b[2J \u009b31m", "line", "\u202e\x1b]0;x\x07")
	if !strings.Contains(out.String(), `clear \u001b[2J \u009b31m`) || strings.ContainsAny(out.String(), "\x1b\u009b\u202e\x07") {
		t.Errorf("%q", &out)
	}
}

// TestLogAfterGreeting: the start is told by the greeting, and by the file.
func TestLogAfterGreeting(t *testing.T) {
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "log")
	a := &app{err: &out, greets: true}
	defer a.finish()
	log, err := a.logger(config.Log{Level: "info", Format: "text", File: file})
	if err != nil {
		t.Fatal(err)
	}
	log = log.With("extension", "kit")
	log.Error("before")
	a.greeted.Store(true)
	log.Error("after")
	if strings.Contains(out.String(), "before") || !strings.Contains(out.String(), "after") {
		t.Errorf("on stderr: %s", &out)
	}
	if kept, err := os.ReadFile(file); err != nil || !strings.Contains(string(kept), "before") || !strings.Contains(string(kept), "after") {
		t.Errorf("in the file: %s %v", kept, err)
	}
}
