package discovery

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/manifest"
)

func TestGate(t *testing.T) {
	bin := t.TempDir()
	for name, mode := range map[string]os.FileMode{"runs": 0o755, "data": 0o644} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(bin, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(bin, "relative"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "relative", "local"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(bin) // relative and empty elements of PATH do not count
	host := Host{
		Withheld: func(name string) bool { return name == "PYTHONPATH" || name == "SET" },
		LookupEnv: func(name string) (string, bool) {
			v, ok := map[string]string{"SET": "x", "EMPTY": ""}[name]
			return v, ok
		},
		Path: strings.Join([]string{"/nonexistent", "", "relative", "./relative", bin},
			string(filepath.ListSeparator)),
		OS:      "linux",
		Arch:    "amd64",
		Version: "1.0.0-rc.1",
	}
	hint := map[string]string{"ffmpeg": "apt install ffmpeg"}
	for _, c := range []struct {
		name     string
		requires manifest.Requires
		minimum  string
		want     []string
	}{
		{"all there", manifest.Requires{
			Bins: []string{"runs"},
			Env:  []string{"SET"},
			OS:   []string{"darwin", "linux"},
			Arch: []string{"amd64"},
		}, "1.0.0-beta", nil},
		{"bins", manifest.Requires{Bins: []string{"ffmpeg", "data", "folder"}, Hint: hint}, "", []string{
			"the program ffmpeg is not on PATH, or not executable; apt install ffmpeg",
			"the program data is not on PATH, or not executable",
			"the program folder is not on PATH, or not executable"}},
		{"relative PATH", manifest.Requires{Bins: []string{"local"}}, "",
			[]string{"the program local is not on PATH, or not executable"}},
		{"env", manifest.Requires{Env: []string{"EMPTY", "UNSET"}}, "", []string{
			"the variable EMPTY is set, but empty; set it in extensions.entries.x.env or its env_file, then exthost " +
				"reload; or in the environment of exthost serve, and start that again",
			"the variable UNSET is not set; set it in extensions.entries.x.env or its env_file, then exthost reload; " +
				"or in the environment of exthost serve, and start that again"}},
		{"withheld", manifest.Requires{Env: []string{"SET", "PYTHONPATH"}}, "", []string{
			"the variable PYTHONPATH is withheld: it makes programs load code, and the host passes none of its own " +
				"on; set it in extensions.entries.x.env, then exthost reload"}},
		{"os and arch", manifest.Requires{OS: []string{"darwin", "windows"}, Arch: []string{"arm64"}}, "", []string{
			"the operating system is linux, and it runs on darwin, windows only",
			"the architecture is amd64, and it runs on arm64 only"}},
		{"M7 host too old", manifest.Requires{}, "1.0.0",
			[]string{"it needs version 1.0.0 of the host, and this is 1.0.0-rc.1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			candidate := Candidate{
				ID:       "x",
				Manifest: &manifest.Manifest{Plugin: manifest.Plugin{MinAgentVersion: c.minimum}, Requires: c.requires},
			}
			var got []string
			for _, d := range Gate(&candidate, host) {
				if d.Code != CodeRequirement || d.Extension != "x" {
					t.Errorf("code %s of %s", d.Code, d.Extension)
				}
				d.Extension = ""
				got = append(got, d.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	host.Version = "(devel)"
	if got := Gate(&Candidate{Manifest: &manifest.Manifest{Plugin: manifest.Plugin{MinAgentVersion: "9.0.0"}}},
		host); got != nil {
		t.Errorf("a development build: %v", got)
	}
	if onPath("runs", "."+string(filepath.ListSeparator)) {
		t.Error("a program in the working directory is on PATH")
	}
}
