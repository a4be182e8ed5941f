package edit

import (
	"strings"
	"testing"
)

func TestApplyChangesOneList(t *testing.T) {
	for _, tt := range []struct {
		name, file, before, after string
		add                       string
		remove                    string
		line                      int
	}{
		{"an empty file", "a.yaml", "", "extensions:\n  disabled: [x]\n", "x", "", 2},
		{"only comments", "a.yaml", "# mine\n", "# mine\n\nextensions:\n  disabled: [x]\n", "x", "", 4},
		{"another section", "a.yaml", "log:\n  level: info # loud",
			"log:\n  level: info # loud\n\nextensions:\n  disabled: [x]\n", "x", "", 5},
		{"a section", "a.yaml", "extensions: # here\n    # depth\n    max_depth: 3\nlog: {}\n",
			"extensions: # here\n    disabled: [x]\n    # depth\n    max_depth: 3\nlog: {}\n", "x", "", 2},
		{"an empty section", "a.yaml", "extensions:\nlog: {}\n", "extensions:\n  disabled: [x]\nlog: {}\n", "x", "", 2},
		{"a section in flow style", "a.yaml", "extensions: {max_depth: 3} # c\n",
			"extensions: {disabled: [x], max_depth: 3} # c\n", "x", "", 1},
		{"an empty one", "a.yaml", "extensions: {}\n", "extensions: {disabled: [x]}\n", "x", "", 1},
		{"a file in flow style", "a.yaml", "{log: {level: info}}\n",
			"{extensions: {disabled: [x]}, log: {level: info}}\n", "x", "", 1},
		{"JSON", "a.yaml", "{\"extensions\": {\"disabled\": [\"a\"]}}", "{\"extensions\": {\"disabled\": [\"a\", x]}}",
			"x", "", 1},
		{"a list without values", "a.yaml", "extensions:\n  disabled: # none\n",
			"extensions:\n  disabled: [x] # none\n", "x", "", 2},
		{"an empty list", "a.yaml", "extensions:\n  disabled: [] # none\n", "extensions:\n  disabled: [x] # none\n",
			"x", "", 2},
		{"a list on a line", "a.yaml", "extensions:\n  disabled: [a, 'b'] # c\n",
			"extensions:\n  disabled: [a, 'b', x] # c\n", "x", "", 2},
		{"a list on lines", "a.yaml", "extensions:\n  disabled: [\n    a, # first\n    b # second\n  ]\n",
			"extensions:\n  disabled: [\n    a, # first\n    b, # second\n    x\n  ]\n", "x", "", 5},
		{"a block", "a.yaml", "extensions:\n  disabled:\n  # old\n  - a # first\n\n  - b # last\n  max_depth: 3\n",
			"extensions:\n  disabled:\n  # old\n  - a # first\n\n  - b # last\n  - x\n  max_depth: 3\n", "x", "", 7},
		{"an indented block at the end", "a.yaml", "extensions:\n  disabled:\n    - a",
			"extensions:\n  disabled:\n    - a\n    - x\n", "x", "", 4},
		{"Windows", "a.yaml", "\xef\xbb\xbfextensions:\r\n  disabled:\r\n    - a\r\n",
			"\xef\xbb\xbfextensions:\r\n  disabled:\r\n    - a\r\n    - x\r\n", "x", "", 4},
		{"ends of lines of both kinds", "a.yaml", "log:\r\n  level: info\r\nextensions:\n  disabled:\n    - a\nx:\r\n",
			"log:\r\n  level: info\r\nextensions:\n  disabled:\n    - a\n    - x\nx:\r\n", "x", "", 6},
		{"out of ends of lines of both kinds", "a.yaml",
			"log: {}\nextensions:\r\n  disabled:\r\n    - a\r\n    - x\r\n# end",
			"log: {}\nextensions:\r\n  disabled:\r\n    - a\r\n# end", "", "x", 5},
		{"a name that is no string by itself", "a.yaml", "extensions: {disabled: []}",
			"extensions: {disabled: [\"null\"]}", "null", "", 1},
		{"there already", "a.yaml", "extensions: {disabled: [x]}", "extensions: {disabled: [x]}", "x", "", 0},

		{"out of a block", "a.yaml", "extensions:\n  disabled:\n  - a # first\n  - x # out\n  - b\n",
			"extensions:\n  disabled:\n  - a # first\n  - b\n", "", "x", 4},
		{"the last of a block", "a.yaml", "extensions:\n  disabled: # few\n  - x\nlog: {}\n",
			"extensions:\n  disabled: [] # few\nlog: {}\n", "", "x", 2},
		{"out of a line", "a.yaml", "extensions: {disabled: [a, x, b]}", "extensions: {disabled: [a, b]}", "", "x", 1},
		{"the last of a line", "a.yaml", "extensions: {disabled: [a, \"x\"]}", "extensions: {disabled: [a]}", "", "x",
			1},
		{"the only one", "a.yaml", "extensions: {disabled: [x]}", "extensions: {disabled: []}", "", "x", 1},
		{"out of lines", "a.yaml", "extensions:\n  disabled: [\n    a,\n    x, # out\n    b,\n  ]\n",
			"extensions:\n  disabled: [\n    a,\n    b,\n  ]\n", "", "x", 4},
		{"not there", "a.yaml", "extensions: {disabled: [a]}", "extensions: {disabled: [a]}", "", "x", 0},

		{"an empty TOML", "a.toml", "", "[extensions]\ndisabled = [\"x\"]\n", "x", "", 2},
		{"a table", "a.toml", "# top\n[extensions] # here\n# depth\nmax_depth = 3\n\n[log]\n",
			"# top\n[extensions] # here\ndisabled = [\"x\"]\n# depth\nmax_depth = 3\n\n[log]\n", "x", "", 3},
		{"a table below", "a.toml", "[log]\nlevel = \"info\"\n[extensions.watch]\nenabled = true\n",
			"[log]\nlevel = \"info\"\n[extensions]\ndisabled = [\"x\"]\n\n[extensions.watch]\nenabled = true\n", "x",
			"", 4},
		{"dotted keys", "a.toml", "extensions.max_depth = 3\n[log]\n",
			"extensions.max_depth = 3\nextensions.disabled = [\"x\"]\n[log]\n", "x", "", 2},
		{"an inline table", "a.toml", "extensions = { max_depth = 3 }\n",
			"extensions = { disabled = [\"x\"], max_depth = 3 }\n", "x", "", 1},
		{"an empty inline table", "a.toml", "extensions = {}\n", "extensions = { disabled = [\"x\"] }\n", "x", "", 1},
		{"an array", "a.toml", "[extensions]\ndisabled = [\"a\", 'b'] # c\n",
			"[extensions]\ndisabled = [\"a\", 'b', \"x\"] # c\n", "x", "", 2},
		{"an array on lines", "a.toml", "[extensions]\ndisabled = [\n\t\"a\", # first\n\t# second\n\t\"b\", # b\n]\n",
			"[extensions]\ndisabled = [\n\t\"a\", # first\n\t# second\n\t\"b\", # b\n\t\"x\",\n]\n", "x", "", 6},
		{"an array of which none is last", "a.toml", "[extensions]\ndisabled = [\n  \"a\"\n]\n",
			"[extensions]\ndisabled = [\n  \"a\",\n  \"x\"\n]\n", "x", "", 4},
		{"an array that ends on the line of its last", "a.toml",
			"[extensions]\r\ndisabled = [ # why\r\n  \"a\", # ]\r\n  \"b\" ]\r\n",
			"[extensions]\r\ndisabled = [ # why\r\n  \"a\", # ]\r\n  \"b\", \"x\" ]\r\n", "x", "", 4},
		{"out of an array", "a.toml", "[extensions]\ndisabled = [\"a\", \"\\u0078\"] # c\n",
			"[extensions]\ndisabled = [\"a\"] # c\n", "", "x", 2},
		{"a header in a text", "a.toml", "[log]\nfile = \"\"\"\n[extensions]\n\"\"\"\n", "", "x", "", 0},
		{"an alias", "a.yaml", "a: &l [b]\nextensions: {disabled: *l}\n", "", "x", "", 0},
		{"not a list", "a.yaml", "extensions: {disabled: 3}\n", "", "x", "", 0},
		{"not a map", "a.yaml", "extensions: 3\n", "", "x", "", 0},
		{"written twice", "a.yaml", "extensions: {disabled: [a]}\nother: *nothing\n", "", "x", "", 0},
	} {
		l := List{Section: "extensions", Key: "disabled", Remove: tt.remove}
		if tt.add != "" {
			l.Add = []string{tt.add}
		}
		got, line, err := Apply(tt.file, []byte(tt.before), l)
		if (err != nil) != (tt.after == "") {
			t.Errorf("%s: %v\n%s", tt.name, err, got)
			continue
		}
		if string(got) != tt.after || line != tt.line {
			t.Errorf("%s: line %d, want %d\n%s\nwant\n%s", tt.name, line, tt.line, got, tt.after)
		}
	}
}

// A list of a section within others is changed as any other, and one that is not there is left to a person.
func TestApplyBelowATable(t *testing.T) {
	for _, tt := range []struct{ name, file, before, after, add, remove string }{
		{"a block", "a.yaml", "toolsets:\n  # mine\n  t:\n    include:\n      - a # first\n      - b\n    prefix: x\n",
			"toolsets:\n  # mine\n  t:\n    include:\n      - a # first\n      - b\n      - ext_*\n    prefix: x\n",
			"ext_*", ""},
		{"out of a block", "a.yaml", "toolsets:\n  t:\n    include:\n      - a # first\n      - b # out\n  u: {}\n",
			"toolsets:\n  t:\n    include:\n      - a # first\n  u: {}\n", "", "b"},
		{"another one's", "a.yaml", "toolsets: {u: {include: [a]}, t: {}}\n",
			"toolsets: {u: {include: [a]}, t: {include: [x]}}\n", "x", ""},
		{"a table", "a.toml", "[toolsets.u]\ninclude = [\"a\"]\n[toolsets.t] # mine\nprefix = \"x\"\n",
			"[toolsets.u]\ninclude = [\"a\"]\n[toolsets.t] # mine\ninclude = [\"x\"]\nprefix = \"x\"\n", "x", ""},
		{"out of an array", "a.toml", "[toolsets.t]\ninclude = [\"a\", \"b\"] # c\n",
			"[toolsets.t]\ninclude = [\"b\"] # c\n", "", "a"},
		{"a long text in an array", "a.toml", "toolsets.t.include = [\"\"\"x\"\"\"]\n", "", "", "x"},
		{"no table", "a.yaml", "toolsets:\n  u: {}\n", "", "x", ""},
		{"a text in its place", "a.yaml", "toolsets: {t: here}\n", "", "x", ""},
	} {
		l := List{Section: "toolsets.t", Key: "include", Remove: tt.remove}
		if tt.add != "" {
			l.Add = []string{tt.add}
		}
		got, _, err := Apply(tt.file, []byte(tt.before), l)
		if (err != nil) != (tt.after == "") || string(got) != tt.after {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.name, err, got, tt.after)
		}
	}
}

func TestApplyAddsSeveral(t *testing.T) {
	got, _, err := Apply("a.yaml", nil, List{Section: "extensions", Key: "disabled", Add: []string{"a", "b"}})
	if want := "extensions:\n  disabled: [a, b]\n"; err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	for name, want := range map[string]string{
		"a.yaml": "extensions:\n  disabled: []\n",
		"a.toml": "[extensions]\ndisabled = []\n",
	} {
		if got, _, err := Apply(name, nil, List{Section: "extensions", Key: "disabled"}); err != nil ||
			string(got) != want {
			t.Errorf("%s, %v", got, err)
		}
	}
}

// An edit of any text either fails or makes exactly its change.
func FuzzApply(f *testing.F) {
	for _, text := range []string{
		"",
		"extensions:\n  disabled: [a, b]\n",
		"extensions:\n  disabled:\n  - a\n  - b # c\n",
		"[extensions]\ndisabled = [\n \"a\", # x\n]\n",
		"extensions.disabled = []\n",
	} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, yaml bool) {
		name := "a.toml"
		if yaml {
			name = "a.yaml"
		}
		if strings.Count(text, "[")+strings.Count(text, "*") > 50 || len(text) > 2000 {
			return
		}
		with, _, err := Apply(name, []byte(text), List{Section: "extensions", Key: "disabled", Add: []string{"x"}})
		if err != nil {
			return
		}
		without, _, err := Apply(name, with, List{Section: "extensions", Key: "disabled", Remove: "x"})
		if err != nil {
			return
		}
		doc, err := notationOf(name).read(without)
		if err != nil {
			t.Fatalf("%q became %q", text, without)
		}
		if values, _ := list(doc, "extensions", "disabled"); len(values) > 0 && values[len(values)-1] == "x" {
			t.Fatalf("%q: x is still there", without)
		}
	})
}
