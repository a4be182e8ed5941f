package unit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/manifest"
)

// Arguments see the transport's own env. An escaped reference becomes a plain one. The home directory in a command is
// the user's, whatever the child's environment says.
func TestExpand(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip("no home directory: ", err)
	}
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{"HOME": "/elsewhere", "TOKEN": "outer", "KEY": "k"}[name]
		return value, ok
	}
	m := &manifest.Manifest{Transport: manifest.Transport{
		Command: "${HOME}/bin/server",
		Args:    []string{"${TOKEN}", "$${TOKEN}", "${KEY}", "${PORT:-80}", "$$", "$HOME"},
		Env:     map[string]string{"TOKEN": "own ${TOKEN}"},
		URL:     "https://${KEY}.example",
	}}
	got, err := ExpandVariables(m, lookup)
	if err != nil {
		t.Fatal(err)
	}
	want := manifest.Transport{
		Command: filepath.Join(home, "bin/server"),
		Args:    []string{"own outer", "${TOKEN}", "k", "80", "$$", "$HOME"},
		Env:     map[string]string{"TOKEN": "own outer"},
		URL:     "https://k.example",
	}
	if diff := cmp.Diff(want, got.Transport); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for command, want := range map[string]string{
		"~/bin/server": filepath.Join(home, "bin/server"),
		"server":       "server",
	} {
		got, err := ExpandVariables(&manifest.Manifest{Transport: manifest.Transport{Command: command}}, lookup)
		if err != nil || got.Transport.Command != want {
			t.Errorf("%s: %s, %v", command, got.Transport.Command, err)
		}
	}
	for _, command := range []string{"${KEY}/server", "/opt/${KEY}", "$${KEY}"} {
		_, err := ExpandVariables(&manifest.Manifest{Transport: manifest.Transport{Command: command}}, lookup)
		if err == nil || !strings.Contains(err.Error(), "write the path in full") {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// A variable that makes programs load code counts as missing unless the operator states it, because no child gets the
// host's.
func TestRequiredVariableThatLoadsCode(t *testing.T) {
	e := &Env{Environ: []string{"PYTHONPATH=/of/the/host", "REGION=eu"}}
	for _, tt := range []struct {
		stated map[string]string
		name   string
		want   string
	}{
		{nil, "REGION", "eu"},
		{nil, "PYTHONPATH", ""},
		{map[string]string{"PYTHONPATH": "/stated"}, "PYTHONPATH", "/stated"},
	} {
		gate := e.gate(tt.stated)
		got, ok := gate.LookupEnv(tt.name)
		if got != tt.want || ok != (tt.want != "") || gate.Withheld(tt.name) != (tt.name == "PYTHONPATH") {
			t.Errorf("%s with %v stated: %q, %v", tt.name, tt.stated, got, ok)
		}
	}
}
