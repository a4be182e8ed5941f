package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/secret/secrets/agefile"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// A secret typed on a terminal is not shown.
func TestSecretIsTypedUnseen(t *testing.T) {
	processtest.Leaks(t)
	dir := t.TempDir()
	person, tty := terminal(t)
	cmd := program(dir, "secret", "set", "github")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	timeout := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer timeout.Stop()
	shown := ""
	for asked := false; ; {
		var buf [4096]byte
		n, err := person.Read(buf[:])
		if err != nil { // the program has ended
			break
		}
		if shown += string(buf[:n]); !asked && strings.Contains(shown, "value of github: ") {
			asked = true
			if _, err := person.WriteString(canary + "\r"); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || strings.Contains(shown, canary) ||
		!strings.Contains(shown, "github is stored") {
		t.Errorf("%v: %s", err, shown)
	}
	secrets := filepath.Join(dir, "config-home", "exthost", "secrets")
	s := agefile.Store{Path: filepath.Join(secrets, "secrets.age"), Identity: filepath.Join(secrets, "identity")}
	if got, err := s.Lookup(t.Context(), "github"); err != nil || got != canary {
		t.Errorf("%q, %v", got, err)
	}
}
