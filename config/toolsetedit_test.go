package config_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/text/rawjson"
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

// A change of shapes keeps every value, comment and byte of the file that is not part of it, in each notation.
func TestEditToolsetShapes(t *testing.T) {
	type shapes = map[string]config.ShownTool
	const both = `# mine
toolsets:
  triage:
    include: ["ext_github_*"]
    tools:
      # bugs alone
      ext_github_create_issue:
        name: file_bug # short
        args:
          repo: {fix: "acme/tracker"} # never another
          labels:
            default: [bug]
            describe: 'What it''s about' # by hand
        result:
          keep:
            - number # the id
            - html_url
      ext_github_list:
        describe: Lists.
`
	issue := func(change func(*config.ShownTool)) shapes {
		s := config.ShownTool{
			Name: "file_bug",
			Args: map[string]config.ShownArg{
				"repo":   {Fix: "acme/tracker"},
				"labels": {Default: []any{"bug"}, Describe: "What it's about"},
			},
			Result: config.ShownResult{Keep: []string{"number", "html_url"}},
		}
		change(&s)
		return shapes{"ext_github_create_issue": s}
	}
	lines := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(both) }
	for name, tt := range map[string]struct {
		tools  shapes
		before string // "": both
		want   string
		file   string // "": exthost.yaml
	}{
		"nothing": {tools: issue(func(*config.ShownTool) {}), want: both},
		"a value": {tools: issue(func(s *config.ShownTool) { s.Args["repo"] = config.ShownArg{Fix: "acme/other"} }),
			want: lines(`"acme/tracker"`, "acme/other")},
		"another kind of value": {
			tools: issue(func(s *config.ShownTool) {
				s.Args["repo"] = config.ShownArg{Fix: json.Number("12345678901234567890")}
				s.Args["labels"] = config.ShownArg{
					Default:  map[string]any{"a": []any{true, 1.5}},
					Describe: "It costs ${5}\nand more",
				}
			}),
			want: lines(`"acme/tracker"`, "12345678901234567890", "[bug]", "{a: [true, 1.5]}", "'What it''s about'",
				`"It costs $${5}\nand more"`),
		},
		"more": {
			tools: issue(func(s *config.ShownTool) {
				s.Describe = "Files a bug."
				s.Args["title"], s.Args["a.b"] = config.ShownArg{Describe: "What breaks"}, config.ShownArg{Hide: true}
				s.Result.MaxTokens = 400
			}),
			want: lines("        name: file_bug # short\n",
				"        describe: Files a bug.\n        name: file_bug # short\n", "args:\n",
				"args:\n          a.b:\n            hide: true\n          title:\n            describe: What breaks\n",
				"result:\n", "result:\n          max_tokens: 400\n"),
		},
		"less": {
			tools: issue(func(s *config.ShownTool) {
				s.Name, s.Result.Keep = "", []string{"number"}
				delete(s.Args, "repo")
				s.Args["labels"] = config.ShownArg{Describe: "What it's about"}
			}),
			want: lines("        name: file_bug # short\n", "",
				"          repo: {fix: \"acme/tracker\"} # never another\n", "", "            default: [bug]\n", "",
				"            - html_url\n", ""),
		},
		"no arguments": {
			tools: issue(func(s *config.ShownTool) { s.Args, s.Result = nil, config.ShownResult{} }),
			want: lines("        args:\n", "", "          repo: {fix: \"acme/tracker\"} # never another\n", "",
				"          labels:\n", "", "            default: [bug]\n", "",
				"            describe: 'What it''s about' # by hand\n", "", "        result:\n", "",
				"          keep:\n", "",
				"            - number # the id\n", "", "            - html_url\n", ""),
		},
		"as it is": {
			tools: shapes{"ext_github_list": {}},
			want:  lines("      ext_github_list:\n        describe: Lists.\n", ""),
		},
		"the first": {
			tools:  shapes{"ext_github_list": {Name: "issues", Args: map[string]config.ShownArg{"state": {Fix: "open"}}}},
			before: "toolsets: {triage: {include: [ext_github_*]}}\n",
			want: "toolsets: {triage: {tools: {ext_github_list: {name: issues, args: {state: {fix: open}}}}, " +
				"include: [ext_github_*]}}\n",
		},
		"JSON": {
			tools:  shapes{"ext_github_list": {Args: map[string]config.ShownArg{"state": {Fix: []any{"a", nil}}}}},
			before: `{"toolsets": {"triage": {"include": ["ext_github_*"], "tools": {"ext_github_list": {"name": "x"}}}}}`,
			want: `{"toolsets": {"triage": {"include": ["ext_github_*"], "tools": {"ext_github_list": {"args": {"state": ` +
				`{"fix": ["a", null]}}}}}}}`,
			file: "exthost.json",
		},
		"TOML": {
			tools: shapes{
				"ext_github_list": {
					Name: "issues",
					Args: map[string]config.ShownArg{"state": {Fix: []any{"open"}}, "a b": {Hide: true}},
				},
				"ext_github_gone": {},
			},
			before: "[toolsets.triage]\ninclude = [\"ext_github_*\"]\n\n" +
				"[toolsets.triage.tools.ext_github_list] # here\n" +
				"name = \"x\" # short\n" +
				"args.state.fix = \"closed\"\n\n[toolsets.triage.tools.ext_github_gone]\nname = \"y\"\n" +
				"[toolsets.triage.tools.ext_github_gone.args.z]\nhide = true\n",
			want: "[toolsets.triage]\ninclude = [\"ext_github_*\"]\n\n" +
				"[toolsets.triage.tools.ext_github_list] # here\n" +
				"name = \"issues\" # short\n" +
				"args.state.fix = [\"open\"]\n\n[toolsets.triage.tools.ext_github_list.args.\"a b\"]\nhide = true\n",
			file: "exthost.toml",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.before == "" {
				tt.before = both
			}
			file := userFile(t, dir, tt.before)
			o := editOptions(dir)
			if tt.file != "" {
				other := filepath.Join(filepath.Dir(file), tt.file)
				if err := os.Rename(file, other); err != nil {
					t.Fatal(err)
				}
				file, o.File = other, other
			}
			_, err := config.EditToolset(o, config.ToolsetEdit{
				Name:    "triage",
				Include: []string{"ext_github_*"},
				Tools:   tt.tools,
			})
			if err != nil {
				t.Fatal(err)
			}
			got, _ := os.ReadFile(file)
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			cfg, err := config.Load(o)
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range tt.tools {
				is, _ := json.Marshal(cfg.Toolsets["triage"].Tools[name])
				if wanted, _ := json.Marshal(want); !rawjson.Equal(is, wanted) {
					t.Errorf("%s is read as %s, want %s", name, is, wanted)
				}
			}
		})
	}
}

// A shape that the configuration would refuse is refused with its key, and one in a notation of its own is shown.
func TestEditToolsetRefusesShapes(t *testing.T) {
	dir := t.TempDir()
	file := userFile(t, dir, "toolsets: {triage: {tools: {ext_a_b: &x {describe: c}, ext_a_d: *x}}}\n")
	before, _ := os.ReadFile(file)
	set := func(tool string, s config.ShownTool) error {
		_, err := config.EditToolset(editOptions(dir), config.ToolsetEdit{
			Name:  "triage",
			Tools: map[string]config.ShownTool{tool: s},
		})
		return err
	}
	for field, s := range map[string]config.ShownTool{
		"tools.ext_a_b.name":              {Name: "a b"},
		"tools.ext_a_b.args.x":            {Args: map[string]config.ShownArg{"x": {Fix: 1, Hide: true}}},
		"tools.ext_a_b.result.max_tokens": {Result: config.ShownResult{MaxTokens: -1}},
	} {
		err := set("ext_a_b", s)
		if wrong := config.MisfitsOf(err); len(wrong) == 0 || wrong[0].Field != field ||
			protocol.KindOf(err) != protocol.InvalidArguments {
			t.Errorf("%s: %+v, %v", field, wrong, err)
		}
	}
	err := set("ext_a_d", config.ShownTool{Name: "d", Args: map[string]config.ShownArg{"count": {Fix: 1}}})
	if byHand, ok := errors.AsType[*config.ByHand](err); !ok ||
		!strings.Contains(byHand.Lines, "    tools:\n      ext_a_d: {args: {count: {fix: 1}}, name: d}\n") {
		t.Errorf("an alias: %v, %q", err, byHand.Lines)
	}
	if after, _ := os.ReadFile(file); string(after) != string(before) {
		t.Errorf("the file has changed:\n%s", after)
	}
}
