package hosttest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/processtest"
)

func ReadFile(t *testing.T, name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// GuardSpec returns a required policy that runs script in a process of its own.
func GuardSpec(t *testing.T, name, script string) governance.Spec {
	t.Helper()
	s := governance.Spec{
		Name:     name,
		Category: governance.Authorization,
		Kind:     governance.KindNative,
		Cmd:      []string{Exe(t)},
		Env:      map[string]string{processtest.ScriptVar: script},
	}
	s.Normalize()
	return s
}

// PidOf returns the pid of an extension's one process.
func PidOf(t *testing.T, h *exthost.Host, id string) int {
	t.Helper()
	s := StatusOf(t, h, id)
	if len(s.Instances) == 0 {
		return 0
	}
	return s.Instances[0].PID
}

// LinesOf returns the lines of a file in the state directory of the extension id; none if the file does not exist.
func LinesOf(t testing.TB, state, id, name string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(state, id, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Fields(string(data))
}
