package peertest

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// allPassed matches the line that counts the checks of a scenario that passes.
var allPassed = regexp.MustCompile(`(?m)^Passed: (\d+)/(\d+), 0 failed`)

// skillFolder writes an extension kit with a tool and two skills, with files of text and of bytes.
func skillFolder(t *testing.T, dir string) {
	t.Helper()
	folder(dir).add(t, "kit", "kind = \"exec\"\n[[tools]]\nname = \"t\"\ncommand = [\"cat\"]\n"+
		"input_schema = { type = \"object\" }")
	for name, text := range map[string]string{
		"git-flow/SKILL.md": "---\nname: git-flow\ndescription: >-\n  Follow the conventions:\n  é\nlicense: MIT\n" +
			"metadata:\n  version: \"1.0\"\n---\nSee templates.\n",
		"git-flow/templates/a message.md": "subject\r\n\r\nbody",
		"git-flow/assets/dot.png":         "\x89PNG\r\n\x1a\n\x00\xff\xfe",
		"git-flow/inner/SKILL.md":         "---\nname: inner\ndescription: Part of the outer one.\n---\n",
		"other/SKILL.md": "---\nname: other\ndescription: Another one.\nversion: 1.0\nuser-invocable: false\n" +
			"hooks: [{run: [a, 2]}]\norigin: elsewhere\nmodel:\n---\n",
	} {
		path := filepath.Join(dir, "kit", "skills", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSkills runs the official conformance scenarios of SEP-2640 against the skills of a folder, in both revisions. It
// has the Inspector's client of skills read and verify every file in both, and FastMCP's in the one that it takes.
func TestSkills(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, dir)
	skillFolder(t, dir)
	url := h.listen(t)
	for _, c := range []struct{ path, revision string }{
		{"/mcp", "2025-11-25"}, {"/mcp", "2026-07-28"}, {"/kit/mcp", "2026-07-28"},
	} {
		for _, scenario := range []string{"enumeration", "manifest", "directory"} {
			t.Run(c.path[1:]+"/"+c.revision+"/"+scenario, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, h.peers.bin("node"), h.peers.bin("conformance"), "server", "--url",
					url+c.path, "--scenario", "sep-2640-skills-"+scenario, "--spec-version", c.revision, "--force",
					"--output-dir", t.TempDir())
				cmd.Dir, cmd.Env = t.TempDir(), h.peers.environ(h.home)
				out, err := cmd.CombinedOutput()
				counts := allPassed.FindSubmatch(out)
				if err != nil || counts == nil || string(counts[1]) != string(counts[2]) {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
	t.Run("fastmcp", func(t *testing.T) { h.fastMCPReadsSkills(t, url) })
	for _, era := range []string{"legacy", "modern"} {
		t.Run("inspector/"+era, func(t *testing.T) { h.inspectorVerifiesSkills(t, url+"/mcp", era) })
	}
}

// inspectorVerifiesSkills has the client of skills in TypeScript, that of the Inspector, list the skills, and verify
// the frontmatter and the digest of every file.
func (h *host) inspectorVerifiesSkills(t *testing.T, url, era string) {
	out, errs, err := h.node(t, h.peers.bin("inspector"), "--cli", url, "--transport", "http", "--protocol-era", era,
		"--format", "json", "-q", "--method", "skills/list", "--verify", "--require-digests")
	if err != nil {
		t.Fatalf("%v\n%s%s", err, errs, out)
	}
	got := map[string]int{}
	for line := range strings.Lines(string(out)) {
		var skill struct {
			URI, Outcome string
			Files        []struct{ Status string }
		}
		if err := json.Unmarshal([]byte(line), &skill); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		got[skill.URI+" "+skill.Outcome] = len(skill.Files)
	}
	want := map[string]int{"skill://kit/git-flow/SKILL.md verified": 4, "skill://kit/other/SKILL.md verified": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", diff, out)
	}
}

func (h *host) fastMCPReadsSkills(t *testing.T, url string) {
	python := filepath.Join(string(h.peers), "venv4", "bin", "python3")
	if _, err := os.Stat(python); err != nil {
		t.Skipf("%s lacks FastMCP: run .ci/peers %s", h.peers, h.peers)
	}
	script, err := filepath.Abs("testdata/skills.py")
	if err != nil {
		t.Fatal(err)
	}
	const kit = "skill://kit/git-flow/"
	want := map[string][]string{
		kit + "SKILL.md": {
			kit + "SKILL.md", kit + "assets/dot.png", kit + "inner/SKILL.md", kit + "templates/a%20message.md",
		},
		"skill://kit/other/SKILL.md": {"skill://kit/other/SKILL.md"},
	}
	for _, path := range []string{"/mcp", "/kit/mcp"} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, python, script, url+path)
		cmd.Dir, cmd.Env = t.TempDir(), h.peers.environ(h.home)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", path, err, stderr.String())
		}
		var got map[string][]string
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%s: %s", path, out)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}
