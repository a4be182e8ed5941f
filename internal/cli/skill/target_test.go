package skill

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/listing/skills"
)

// projectDir is a project in the working directory, and an extension with skills.
type projectDir struct {
	*testing.T
	extension string // folder
}

func newProject(t *testing.T) projectDir {
	t.Chdir(t.TempDir())
	return projectDir{t, t.TempDir()}
}

// put writes a file, "" removes it.
func (p projectDir) put(path, text string) {
	p.Helper()
	var err error
	if text == "" {
		err = os.Remove(path)
	} else if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		p.Fatal(err)
	}
}

// skill writes a file of the skill one.
func (p projectDir) skill(file, text string) {
	p.Helper()
	p.put(filepath.Join(p.extension, skills.Folder, "one", file), text)
}

// run projects the skills for Claude Code, and returns the outcome in one line.
func (p projectDir) run(o options) string {
	p.Helper()
	o.client, o.scope = "claude", scopeProject
	dir, err := o.folder()
	if err != nil {
		p.Fatal(err)
	}
	t, err := openTarget(dir, o)
	if err != nil {
		e, ok := errors.AsType[*console.Error](err)
		if !ok {
			p.Fatal(err)
		}
		return e.Text
	}
	defer t.close()
	var wanted []found
	served := skills.Serve("kit", skills.Read(p.extension))
	for _, e := range served.Entries() {
		wanted = append(wanted, found{extension: "kit", folder: served, Entry: e})
	}
	var out projected
	switch {
	case o.undo:
		err = t.undo(nil, &out)
	case o.check:
		err = t.check(wanted, true, &out)
	default:
		err = t.write(wanted, true, &out)
	}
	if err != nil {
		p.Fatal(err)
	}
	var said []string
	for _, of := range []struct {
		verb  string
		names []string
	}{{"written", out.Written}, {"removed", out.Removed}, {"unchanged", out.Unchanged}, {"kept", out.Kept}} {
		if len(of.names) > 0 {
			said = append(said, of.verb+" "+strings.Join(of.names, ", "))
		}
	}
	return strings.Join(said, "; ")
}

// says runs and compares the outcome.
func (p projectDir) says(o options, want string) {
	p.Helper()
	if got := p.run(o); got != want {
		p.Errorf("%q, want %q", got, want)
	}
}

// files returns the files below the working directory with their modes, without the record.
func (p projectDir) files() (list []string) {
	p.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == recordName {
			return err
		}
		info, err := d.Info()
		if info.Mode()&0o111 != 0 {
			path += "*"
		}
		list = append(list, path)
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
	return list
}

const one = "---\nname: one\ndescription: d\n---\n"

// TestProject writes a skill, its next version, and undoes it. What is up to date is not written again.
func TestProject(t *testing.T) {
	p := newProject(t)
	p.skill("SKILL.md", one)
	p.skill("scripts/run.sh", "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(p.extension, "skills", "one", "scripts", "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.says(options{check: true}, "written one")
	p.says(options{undo: true}, "")
	if diff := cmp.Diff([]string(nil), p.files()); diff != "" {
		t.Error(diff)
	}
	p.says(options{}, "written one")
	if diff := cmp.Diff([]string{".claude/skills/one/SKILL.md", ".claude/skills/one/scripts/run.sh*"},
		p.files()); diff != "" {
		t.Error(diff)
	}
	record := filepath.Join(".claude", "skills", recordName)
	before, err := os.Stat(record)
	if err != nil {
		t.Fatal(err)
	}
	p.says(options{}, "unchanged one")
	if after, err := os.Stat(record); err != nil || !os.SameFile(before, after) {
		t.Errorf("the record was written again, %v", err)
	}
	p.skill("scripts/run.sh", "")
	p.skill("notes.md", "new")
	p.says(options{check: true}, "written one")
	p.says(options{}, "written one")
	p.says(options{check: true}, "unchanged one")
	if diff := cmp.Diff([]string{".claude/skills/one/SKILL.md", ".claude/skills/one/notes.md"}, p.files()); diff != "" {
		t.Error(diff)
	}
	p.put(filepath.Join(".claude", "skills", "one", "notes.md"), "")
	p.says(options{}, "written one") // a missing file is written again
	p.skill("SKILL.md", "")
	p.says(options{}, "removed one")
	if diff := cmp.Diff([]string(nil), p.files()); diff != "" {
		t.Error(diff)
	}
}

// TestProjectAfterABreak continues where a run was ended between two files.
func TestProjectAfterABreak(t *testing.T) {
	p := newProject(t)
	p.skill("SKILL.md", one)
	p.skill("a.md", "old")
	p.says(options{}, "written one")
	target, err := openTarget(filepath.Join(".claude", "skills"), options{scope: scopeProject})
	if err != nil {
		t.Fatal(err)
	}
	w := target.record.Skills["one"]
	w.Before = w.Files
	w.Files = map[string]string{"SKILL.md": w.Before["SKILL.md"], "a.md": skills.Digest([]byte("new"))}
	target.record.Skills["one"] = w
	if err := target.save(); err != nil {
		t.Fatal(err)
	}
	target.close()
	p.skill("a.md", "new")
	p.says(options{check: true}, "written one")
	p.says(options{}, "written one")
	p.says(options{}, "unchanged one")
}

// TestProjectLeavesAlone changes what was written, in one way at a time: then nothing is written or removed.
func TestProjectLeavesAlone(t *testing.T) {
	dir := filepath.Join(".claude", "skills", "one")
	for name, c := range map[string]struct {
		change func(p projectDir)
		want   string
	}{
		"changed": {func(p projectDir) { p.put(filepath.Join(dir, "SKILL.md"), "mine") },
			"kept one: it changed since exthost wrote it: SKILL.md"},
		"new": {func(p projectDir) { p.put(filepath.Join(dir, "mine.md"), "mine") },
			"kept one: it changed since exthost wrote it: mine.md (new)"},
		"not recorded": {func(p projectDir) { p.put(filepath.Join(dir, "..", recordName), "") },
			"kept one: it was not written by exthost"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			p.skill("SKILL.md", one)
			p.says(options{}, "written one")
			p.skill("SKILL.md", one+"next version\n")
			c.change(p)
			before := p.files()
			p.says(options{check: true}, c.want)
			p.says(options{}, c.want)
			if name != "not recorded" { // then there is nothing to undo
				p.says(options{undo: true}, c.want)
			}
			if diff := cmp.Diff(before, p.files()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestProjectLinks refuses a folder of a project that leads out of it, and a record with paths that do.
func TestProjectLinks(t *testing.T) {
	p := newProject(t)
	p.skill("SKILL.md", one)
	outside := t.TempDir()
	if err := os.Symlink(outside, ".claude"); err != nil {
		t.Skip("NOT TESTED: links cannot be made: ", err)
	}
	for _, o := range []options{{}, {check: true}, {undo: true}} {
		if got := p.run(o); !strings.Contains(got, filepath.Join(".claude", "skills")+" cannot be used") {
			t.Errorf("%+v: %q", o, got)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
	p.put(".claude", "")
	p.put(filepath.Join(".claude", "skills", recordName),
		`{"version": 1, "skills": {"one": {"files": {"../../x": "sha256:0"}}}}`)
	if got := p.run(options{undo: true}); !strings.Contains(got, `"../../x" is no path below the folder`) {
		t.Error(got)
	}
}

// TestUserFolder checks that the folder of the user is where the client looks for it.
func TestUserFolder(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	t.Setenv("CLAUDE_CONFIG_DIR", filepath.Join(home, "other"))
	for client, want := range map[string]string{"claude": "other/skills", "codex": ".agents/skills"} {
		got, err := options{client: client, scope: scopeUser}.folder()
		if err != nil || got != filepath.Join(home, filepath.FromSlash(want)) {
			t.Errorf("%s: %s, %v", client, got, err)
		}
	}
}

// TestSkillOfTwoExtensions checks that the hint about a name of two skills is the command that was run.
func TestSkillOfTwoExtensions(t *testing.T) {
	list := []found{{extension: "a", Entry: skills.Entry{Skill: &skills.Skill{Name: "one"}}},
		{extension: "b", Entry: skills.Entry{Skill: &skills.Skill{Name: "one"}}}}
	const command = "exthost skills project --client claude"
	_, err := choose(list, "one", command)
	if e, ok := errors.AsType[*console.Error](err); !ok || e.Hint != command+" a/one" {
		t.Errorf("%+v", err)
	}
	if k, err := choose(list, "b/one", command); err != nil || k.extension != "b" {
		t.Errorf("%+v, %v", k, err)
	}
}
