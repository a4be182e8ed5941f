package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/protocol"
)

// userFile writes the user's file of a directory, and returns its name.
func userFile(t *testing.T, dir, text string) string {
	t.Helper()
	file := filepath.Join(dir, "user", "exthost.yaml")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	return file
}

// An edit changes the patterns and nothing else of the file: comments, order and other keys of the toolset stay.
func TestEditToolsetKeepsTheRest(t *testing.T) {
	dir := t.TempDir()
	file := userFile(t, dir, `# mine
toolsets:
  review: # for reviews
    include:
      - ext_git_* # all of git
      - ext_notes_list
    prefix: ""
log: {level: info}
`)
	edit := func(e config.ToolsetEdit, want string) {
		t.Helper()
		done, err := config.EditToolset(editOptions(dir), e)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := os.ReadFile(file)
		if diff := cmp.Diff(want, string(got)); diff != "" || done.File != file || !done.Changed {
			t.Errorf("%+v\n%s", done, diff)
		}
	}
	const reviewed = `# mine
toolsets:
  review: # for reviews
    exclude: [ext_git_push]
    include:
      - ext_git_* # all of git
      - ext_kit_say
    prefix: ""
log: {level: info}
`
	edit(config.ToolsetEdit{
		Name:    "review",
		Include: []string{"ext_git_*", "ext_kit_say"},
		Exclude: []string{"ext_git_push"},
	}, reviewed)
	edit(config.ToolsetEdit{Name: "talk", New: true, Include: []string{"ext_*"}},
		strings.Replace(reviewed, "toolsets:\n", "toolsets:\n  talk: {include: [ext_*]}\n", 1))
	edit(config.ToolsetEdit{Name: "talk", Remove: true}, reviewed)
	done, err := config.EditToolset(editOptions(dir), config.ToolsetEdit{
		Name:    "review",
		Include: []string{"ext_kit_say", "ext_git_*"},
		Exclude: []string{"ext_git_push"},
	})
	if err != nil || done.Changed {
		t.Errorf("the same patterns: %+v, %v", done, err)
	}
}

// Without patterns of include, a toolset shows everything, also if it stated some before.
func TestEditToolsetToEverything(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"toolsets: {review: {include: [ext_git_*]}}\n": "toolsets: {review: {include: ['*']}}\n",
		"toolsets: {review: {exclude: [ext_git_*]}}\n": "toolsets: {review: {exclude: []}}\n",
	} {
		file := userFile(t, dir, text)
		if _, err := config.EditToolset(editOptions(dir), config.ToolsetEdit{
			Name:    "review",
			Include: []string{},
		}); err != nil {
			t.Errorf("%s%v", text, err)
		}
		if got, _ := os.ReadFile(file); string(got) != want {
			t.Errorf("%sis now\n%s", text, got)
		}
	}
}

// What the configuration would refuse is refused with the field that is wrong, and nothing is written.
func TestEditToolsetRefuses(t *testing.T) {
	dir := t.TempDir()
	file := userFile(t, dir, `toolsets: {review: {include: [ext_git_*]}, odd: &a {include: [x]}, alias: *a}
server: {clients: {ada: {toolset: review}}}
`)
	before, _ := os.ReadFile(file)
	for name, tt := range map[string]struct {
		edit        config.ToolsetEdit
		kind        protocol.Kind
		field, text string
	}{
		"a name twice": {config.ToolsetEdit{Name: "review", New: true}, protocol.InvalidArguments, "name", "already"},
		"no such name": {config.ToolsetEdit{Name: "reveiw"}, protocol.ToolNotFound, "name", `did you mean "review"`},
		"no name": {config.ToolsetEdit{Name: "a b", New: true}, protocol.InvalidArguments, "name",
			"is not a toolset's name"},
		"no pattern": {config.ToolsetEdit{Name: "review", Include: []string{"[x"}}, protocol.InvalidArguments, "include",
			"is not a glob"},
		"of a client": {config.ToolsetEdit{Name: "review", Remove: true}, protocol.InvalidArguments, "name",
			"server.clients.ada.toolset has the toolset"},
		"another file": {config.ToolsetEdit{Name: "review", Include: []string{"x"}, Digest: "sha256:0"},
			protocol.ConfigInvalid, "", "has changed since it was shown"},
	} {
		_, err := config.EditToolset(editOptions(dir), tt.edit)
		field := ""
		if wrong := config.MisfitsOf(err); wrong != nil {
			field = wrong[0].Field
		}
		if protocol.KindOf(err) != tt.kind || field != tt.field || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %s %q: %v", name, protocol.KindOf(err), field, err)
		}
	}
	_, err := config.EditToolset(editOptions(dir), config.ToolsetEdit{Name: "alias", Include: []string{"y"}})
	byHand, ok := errors.AsType[*config.ByHand](err)
	if !ok || !strings.Contains(byHand.Lines, `include: ["y"]`) {
		t.Errorf("an alias: %v", err)
	}
	if after, _ := os.ReadFile(file); string(after) != string(before) {
		t.Errorf("the file has changed:\n%s", after)
	}
}

// What a person should write to a file in TOML is TOML.
func TestEditToolsetByHandInTOML(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(filepath.Dir(userFile(t, dir, "")), "exthost.toml")
	if err := errors.Join(os.Remove(strings.TrimSuffix(file, "toml")+"yaml"),
		os.WriteFile(file, []byte("toolsets.review.include = [\"\"\"x\"\"\"]\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := config.EditToolset(editOptions(dir), config.ToolsetEdit{Name: "review", Include: []string{"y"}})
	byHand, ok := errors.AsType[*config.ByHand](err)
	if want := "[toolsets.review]\ninclude = [\"y\"]\nexclude = []\n"; !ok || byHand.Lines != want {
		t.Errorf("%v: %+v", err, byHand)
	}
}

// An edit of a client is bound to the file that was shown, and values that the configuration would refuse name the
// field.
func TestEditClientIsBoundToTheFile(t *testing.T) {
	dir := t.TempDir()
	file := userFile(t, dir, "toolsets: {review: {}}\n")
	shown, err := config.Digest(file)
	if err != nil {
		t.Fatal(err)
	}
	add := func(name, digest string, change func(*config.Client)) error {
		c := freshClient()
		if change != nil {
			change(c)
		}
		_, err := config.EditClient(editOptions(dir), config.ClientEdit{Name: name, New: c, Digest: digest})
		return err
	}
	if err := add("ada", shown, nil); err != nil {
		t.Fatal(err)
	}
	if err := add("bob", shown, nil); protocol.KindOf(err) != protocol.ConfigInvalid ||
		!strings.Contains(err.Error(), "has changed since it was shown") {
		t.Errorf("a file that has changed: %v", err)
	}
	for field, change := range map[string]func(*config.Client){
		"name":    nil,
		"toolset": func(c *config.Client) { c.Toolset = "reveiw" },
		"mode":    func(c *config.Client) { c.Mode = "serach" },
		"scope":   func(c *config.Client) { c.Scope, c.Mode = "metrics", "all" },
	} {
		name := map[bool]string{true: "ada", false: "eve"}[field == "name"]
		err := add(name, "", change)
		if wrong := config.MisfitsOf(err); len(wrong) != 1 || wrong[0].Field != field ||
			field == "toolset" && wrong[0].Suggestion != "review" ||
			field == "mode" && wrong[0].Suggestion != "search" {
			t.Errorf("%s: %+v, %v", field, wrong, err)
		}
	}
	if got := clientsOf(t, dir); len(got) != 1 {
		t.Errorf("%v", got)
	}
}
