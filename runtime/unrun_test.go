//go:build unix

package runtime

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// TestProgramThatIsNotRun names the program that the command of an extension wanted to run, in its error.
func TestProgramThatIsNotRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"start":        "#!/usr/bin/env no-such-node\n",
		"npx":          "#!/bin/sh\necho 'sh: 1: acme-tools: not found' >&2\nexit 127\n",
		"package.json": `{"name": "@acme/tools"}`,
		"plain":        "no program\n",
	} {
		mode := os.FileMode(0o755)
		if name == "plain" {
			mode = 0o644
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		argv []string
		want []string
	}{
		"a shell": {[]string{"sh", "-c", "exec no-such-node server.js"},
			[]string{"exit status 127", "there is no program no-such-node on its PATH"}},
		"the first line of a script": {[]string{"./start"},
			[]string{"exit status 127", "there is no program no-such-node on its PATH"}},
		"not executable": {[]string{"sh", "-c", "./plain"},
			[]string{"exit status 126", "./plain is missing, or may not be executed"}},
		"npx in the package": {[]string{"./npx", "-y", "@acme/tools@latest"},
			[]string{"there is no program acme-tools on its PATH", dir, "installs nothing: state another cwd"}},
		"npx of another package": {[]string{"./npx", "-y", "@acme/toolset@latest"},
			[]string{"there is no program acme-tools on its PATH: install it"}},
	} {
		t.Run(name, func(t *testing.T) {
			fault(t)
			s := mcpSpec(t, "", manifest.MCPVersionAuto)
			s.Dir, s.Manifest.Transport.Command, s.Manifest.Transport.Cmd = dir, "", c.argv
			s.Env = append(s.Env, "PATH="+os.Getenv("PATH"))
			wantContains(t, launch(t, s).end(protocol.ChildExited).Error(), c.want...)
		})
	}
}
