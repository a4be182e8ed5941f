package strict

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func TestPaths(t *testing.T) {
	path := Join(Join(Index(Join("", "a"), 2), `b.c"]`), "d")
	if want := `a[2]."b.c\"]".d`; path != want {
		t.Fatalf("path = %s, want %s", path, want)
	}
	var got []string
	for ; path != ""; path = parent(path) {
		got = append(got, path)
	}
	if diff := cmp.Diff([]string{`a[2]."b.c\"]".d`, `a[2]."b.c\"]"`, "a[2]", "a"}, got); diff != "" {
		t.Error(diff)
	}
	p := Positions{"a": {Line: 1}, "a[1]": {Line: 2}, "a[1].b": {Line: 3}, "a[0]": {Line: 4}, "ab": {Line: 5}}
	if pos, ok := p.At("a[1].c.d[4]"); !ok || pos.Line != 2 {
		t.Errorf("At = %v, %v", pos, ok)
	}
	if _, ok := p.At("c.d"); ok {
		t.Error("a place for what nobody stated")
	}
	p.drop("a", 1)
	if diff := cmp.Diff(Positions{"a": {Line: 1}, "a[0]": {Line: 4}, "ab": {Line: 5}}, p); diff != "" {
		t.Error(diff)
	}
}

// inner and outer have a field of every kind that decoding supports.
type inner struct {
	Name  string        `json:"name"`
	Wait  time.Duration `json:"wait_ms"`
	Grace time.Duration `json:"grace"`
	N     int           `json:"n" jsonschema:"minimum=1,maximum=9"`
}

func (i *inner) SetDefaults() { *i = inner{N: 5} }

type outer struct {
	List  []inner          `json:"list"`
	Named map[string]inner `json:"named" list:"name"`
	Ptr   *inner           `json:"ptr"`
	Flag  *bool            `json:"flag"`
	File  string           `json:"file" path:"true"`
	Free  map[string]any   `json:"free"`
	Skip  string           `json:"-"`
}

func decode(t *testing.T, d *Decoder, yaml string, into *outer) string {
	t.Helper()
	d.Report, d.Positions = &Report{}, Positions{}
	if d.Lookup == nil {
		d.Lookup = func(string) (string, bool) { return "", false }
	}
	n := YAML(NewSource("/etc/x/f.yaml", []byte(yaml)), d.Report)
	if n != nil {
		d.Decode("", n, into)
	}
	var b strings.Builder
	for _, diag := range d.Report.Diagnostics {
		b.WriteString(diag.String() + "\n")
	}
	return strings.ReplaceAll(b.String(), "/etc/x/f.yaml:", "")
}

func TestDecodeKindsOfValues(t *testing.T) {
	yes := true
	tests := []struct {
		name, yaml string
		want       outer
		said       string
	}{
		{"nothing", "", outer{}, ""},
		{"null is not stated", "{list: , ptr: ~, file: null}", outer{}, ""},
		{"elements have defaults", "{list: [{}, {n: 2}], ptr: {}}",
			outer{List: []inner{{N: 5}, {N: 2}}, Ptr: &inner{N: 5}}, ""},
		{"a map as a list", "named: [{name: a, n: 1}, {name: b}]",
			outer{Named: map[string]inner{"a": {N: 1}, "b": {N: 5}}}, ""},
		{"a map as a list, twice", "named: [{name: a}, {name: a}, {n: 1}, 3]",
			outer{Named: map[string]inner{"a": {N: 5}}},
			"1:27: named.a is already defined at 1; keep one of the two\n1:31: named[2]: want a map with a " +
				"name\n1:39: named[3]: want a map with a name\n"},
		{"durations", "ptr: {wait_ms: 3, grace_ms: 4}", outer{Ptr: &inner{N: 5, Wait: 3e6, Grace: 4e6}}, ""},
		{"durations as text", "ptr: {wait: 3s, grace: 1m}", outer{Ptr: &inner{N: 5, Wait: 3e9, Grace: 60e9}}, ""},
		{"zero needs no unit", "ptr: {wait: 0, grace: 0}", outer{Ptr: &inner{N: 5}}, ""},
		{"one duration, two keys", "ptr: {wait: 3s, wait_ms: 1}", outer{Ptr: &inner{N: 5, Wait: 3e9}},
			"1:17: ptr.wait_ms is already stated at 1; keep one of the two\n"},
		{"too long", "ptr: {grace_ms: 9223372036854775807}", outer{Ptr: &inner{N: 5}},
			"1:17: ptr.grace: 9223372036854775807 milliseconds are more than a duration can hold\n"},
		{"bounds", "list: [{n: 0}, {n: 10}, {n: 1.5}, {n: 99999999999999999999}]",
			outer{List: []inner{{}, {N: 10}, {N: 5}, {N: 5}}},
			"1:12: list[0].n: 0 is less than 1\n1:20: list[1].n: 10 is more than 9\n1:29: list[2].n: want a whole " +
				"number, not 1.5\n1:39: list[3].n: want a whole number, not 99999999999999999999\n"},
		{"pointer", "flag: true", outer{Flag: &yes}, ""},
		{"no fields without a name", "{Skip: x, '': y}", outer{},
			"1:2: unknown key \"Skip\"; one of list, named, ptr, flag, file, free\n1:11: unknown key \"\"; one of " +
				"list, named, ptr, flag, file, free\n"},
		{"paths", "file: sub/../x", outer{File: "/etc/x/x"}, ""},
		{"absolute path", "file: /a//b/", outer{File: "/a/b"}, ""},
		{"no path", "file: ''", outer{}, ""},
		{"merge key", "{free: {base: &b {a: 1, c: 2}, '<<': x}, ptr: {<<: [{n: 7}, {n: 8}]}}",
			outer{
				Ptr:  &inner{N: 7},
				Free: map[string]any{"base": map[string]any{"a": int64(1), "c": int64(2)}, "<<": "x"},
			}, ""},
		{"merge key of a scalar", "ptr: {<<: x}", outer{Ptr: &inner{N: 5}},
			"1:11: << wants a map or a list of maps, not a string\n"},
		{"columns count bytes", "{free: {\"ééé\": 1}, oops: 1}", outer{Free: map[string]any{"ééé": int64(1)}},
			"1:23: unknown key \"oops\"; one of list, named, ptr, flag, file, free\n"},
		{"wrong types", "{list: {}, named: x, ptr: [], flag: 1, file: 2, free: [1]}",
			outer{Ptr: &inner{N: 5}, Flag: new(bool)},
			"1:8: list: want a list, not a map\n1:19: named: want a map, not a string\n1:27: ptr: want a map, not a " +
				"list\n" +
				"1:37: flag: want true or false, not 1; write true or false\n1:46: file: want a string, not 2; write " +
				"\"2\"\n1:55: free: want a map, not a list\n"},
		{"dates are text", "free: {d: 2026-01-02, n: null}", outer{Free: map[string]any{"d": "2026-01-02", "n": nil}},
			""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got outer
			if said := decode(t, &Decoder{}, tt.yaml, &got); said != tt.said {
				t.Errorf("said:\n%swant:\n%s", said, tt.said)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestKeptElementsAreNotReplaced(t *testing.T) {
	v := outer{List: []inner{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	d := &Decoder{Keep: map[string]int{"list": 1}}
	if said := decode(t, d, "list: [{name: z}]", &v); said != "" {
		t.Error(said)
	}
	if diff := cmp.Diff([]inner{{Name: "a"}, {Name: "z", N: 5}}, v.List); diff != "" {
		t.Error(diff)
	}
	if pos := d.Positions["list[1].name"]; pos.Line != 1 || pos.Column != 15 {
		t.Errorf("place = %+v", pos)
	}
}

// Every kind of key and value is located.
func TestTOMLPositions(t *testing.T) {
	const doc = `a.b = 1 # c = 2
"q\u0041" = { x = [1, [2,
  3]], y.z = """
line = 1
"quoted\""""" }
[t . 'k.l'] # [x]
d = 1979-05-27 07:32:00
[[t.arr]]
s = '''it's'''
[[t.arr]]
[t.arr.sub]
v = -1.5e3
`
	n, refusal := TOML(NewSource("f", []byte(doc)), Rules{})
	if n == nil {
		t.Fatal(refusal)
	}
	var got []string
	visit(n, "", func(path string, n *Node) {
		if n.Kind != Map && n.Kind != List {
			got = append(got, path+" "+n.Pos.String()+" "+n.Text)
		}
	})
	want := []string{"a.b f:1 1", "qA.x[0] f:2 1", "qA.x[1][0] f:2 2", "qA.x[1][1] f:3 3",
		"qA.y.z f:3 line = 1\n\"quoted\"\"",
		`t."k.l".d f:7 1979-05-27 07:32:00`, "t.arr[0].s f:9 it's", "t.arr[1].sub.v f:12 -1.5e3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A statement spans its lines, and its value is found in each notation.
func TestTOMLStatements(t *testing.T) {
	const doc = "# top\r\na.'b c' = [ # ]\r\n  1, '''\n]''',\r\n] # end\r\n\n [ t . x ] # [y]\n" +
		"\tk={ l = \"}\" , m.n = 1 }\n[[t.arr]]\ns = \"\\\"#\"# last"
	var got []string
	for _, s := range Statements(NewSource("f", []byte(doc))) {
		got = append(got, fmt.Sprintf("%q %q: %q in %q", s.Table, s.Key, doc[s.Place.Start:s.Place.End],
			doc[s.Start:s.End]))
	}
	want := []string{
		`[] ["a" "b c"]: "[ # ]\r\n  1, '''\n]''',\r\n]" in "a.'b c' = [ # ]\r\n  1, '''\n]''',\r\n] # end\r\n"`,
		`["t" "x"] []: "" in " [ t . x ] # [y]\n"`,
		`["t" "x"] ["k"]: "{ l = \"}\" , m.n = 1 }" in "\tk={ l = \"}\" , m.n = 1 }\n"`,
		`["t" "arr"] []: "" in "[[t.arr]]\n"`,
		`["t" "arr"] ["s"]: "\"\\\"#\"" in "s = \"\\\"#\"# last"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	p, ok := LocateTOML([]byte(doc), "t", "x", "k", "m", "n")
	if !ok || doc[p.Key:p.End] != "n = 1" || doc[p.Start:p.End] != "1" {
		t.Errorf("%v, %v", p, ok)
	}
	if p, ok = LocateTOML([]byte(doc), "t", "x"); !ok || doc[p.Start] != '[' || p.End != p.Start {
		t.Errorf("%v, %v", p, ok)
	}
	if p, ok = LocateTOML([]byte(doc), "t", "z", "k"); ok {
		t.Errorf("%v for a key that is not there", p)
	}
}

func visit(n *Node, path string, f func(string, *Node)) {
	f(path, n)
	for _, field := range n.Fields {
		visit(field.Value, Join(path, field.Key), f)
	}
	for i, item := range n.Items {
		visit(item, Index(path, i), f)
	}
}

// count returns the number of values in a decoded document.
func count(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			n += count(x)
		}
	case []any:
		for _, x := range v {
			n += count(x)
		}
	case []map[string]any:
		for _, x := range v {
			n += count(x)
		}
	}
	return n
}

// No text panics, a text that the parser accepts is read completely or exceeds a limit, and every position is
// inside the file.
func FuzzTOML(f *testing.F) {
	for _, seed := range []string{"", "a = 1", "[a.b]\nc = [1, {d = 2}]", "[[a]]\n[[a]]\nb.c = '''x'''\n[a.d]",
		"a = \"\\u0041\\\"\"\n'b' = 1e3",
		"a = {\n b = 1, # c\n}", "a = [\n1,\n]\r\n", "\"\" = 1", "a = 1979-05-27T07:32:00Z", "a = \"\"\"\"x\"\"\"\"\"",
		"a.b=1\na.c=2\n[d]\n[d.e.f]", "x = \"\\x41\"", "a=[[]]\n[b]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src := NewSource("f", data)
		if len(data) > 4<<10 || src.Invalid() >= 0 {
			return
		}
		for _, rules := range []Rules{{}, {Depth: 24, Parts: 24, KeyBytes: 1024, Work: 100_000, AtKeys: true}} {
			checkTOML(t, src, rules)
		}
	})
}

func checkTOML(t *testing.T, src *Source, rules Rules) {
	n, refusal := TOML(src, rules)
	if (n == nil) != (refusal != nil) {
		t.Fatalf("tree %v, refusal %v", n, refusal)
	}
	if n == nil {
		checkPlace(t, src, "the refusal", refusal.Pos)
		if refusal.Limit {
			return
		}
	}
	doc, err := parse(src.Text)
	if (err == nil) != (n != nil) {
		t.Fatalf("the parser says %v, we say %v", err, refusal)
	}
	if n == nil {
		return
	}
	values := 0
	visit(n, "", func(path string, n *Node) {
		values++
		checkPlace(t, src, path, n.Pos)
	})
	if want := count(doc); values != want {
		t.Errorf("%d values of %d", values, want)
	}
	checkStatements(t, src)
}

// checkStatements fails for statements that share a line, and for a value whose text is not one.
func checkStatements(t *testing.T, src *Source) {
	end := 0
	for _, s := range Statements(src) {
		if s.Start < end || s.End <= s.Start {
			t.Errorf("a statement from %d to %d, after %d", s.Start, s.End, end)
		}
		end = s.End
		if s.Key == nil {
			continue
		}
		if _, err := parse("v = " + src.Text[s.Place.Start:s.Place.End]); err != nil {
			t.Errorf("the value of %q: %v", s.Key, err)
		}
	}
}

// checkPlace fails for a position outside of the file.
func checkPlace(t *testing.T, src *Source, what string, pos Pos) {
	if pos.Line < 1 || pos.Column < 1 || pos.Line > len(src.starts) ||
		src.starts[pos.Line-1]+pos.Column-1 > len(src.Text) {
		t.Errorf("%s is at %d:%d", what, pos.Line, pos.Column)
	}
}

// No text panics, and every position is inside the file.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`[]`,
		`{"a": [1, {"b": null}, "\u00e9"], /* c */ "a": 1.5e300,} // x`,
		`{"a": ]}`,
		"{\n\"a\" 1}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src := NewSource("f", data)
		if len(data) > 4<<10 || src.Invalid() >= 0 {
			return
		}
		n, refusal := JSON(src, Rules{Depth: 24, AtKeys: true})
		if n == nil {
			checkPlace(t, src, "the refusal", refusal.Pos)
			return
		}
		visit(n, "", func(path string, n *Node) { checkPlace(t, src, path, n.Pos) })
	})
}

// No text panics, and what yaml.v3 refuses is refused.
func FuzzYAML(f *testing.F) {
	for _, seed := range []string{"", "a: 1", "a: &x [1, *x]", "a: &x {b: 1}\nc: {<<: *x}", "- a\n- !!binary aGk=",
		"a: !!float x", "---\n---\n", "? [a]\n: b", "é: 'ü'\n\"b\": |\n  x\n",
		"a: 0x1F\nb: 0o17\nc: 1_000\nd: .nan\ne: 12345678901234567890", "<<: 1", "%YAML 1.1\n---\na", "a: *b",
		"\ufeffa: 1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4<<10 {
			return
		}
		src, r := NewSource("f", data), &Report{}
		if src.Invalid() >= 0 {
			return
		}
		n := YAML(src, r)
		if n == nil && len(r.Diagnostics) == 0 {
			t.Fatal("neither a tree nor a reason")
		}
		var doc any
		if err := yaml.Unmarshal(data, &doc); err != nil && n != nil && !r.Failed() &&
			!strings.Contains(err.Error(), "already defined") {
			t.Errorf("yaml.v3 says %v", err)
		}
		if n != nil {
			d := &Decoder{Report: r, Positions: Positions{}, Lookup: func(string) (string, bool) { return "", false }}
			d.Decode("", n, new(outer))
		}
	})
}

// A syntax error is at the line where what is never closed was opened, or where the error is.
func TestLineOfSyntaxError(t *testing.T) {
	for text, want := range map[string]int{
		"a: [1, 2\nb: 3\n":                     1,
		"x: 1\na: [1, 2\nb: 3\n":               2,
		"x: 1\n\n\na: [1,\n 2,\n 3\nb: 3\n":    4,
		"x: 1\ny:\n  a: {b: 1\n  c: 3\nz: 4\n": 3,
		"x: 1\n---\na: [1\nb: 2\n":             3,
		"x: \"abc\ny: 2\n":                     1,
		"x: 1\ny: \"abc\nz: 2\n":               2,
		"x: 1\ny: 2\n- z\n":                    3,
		"x: 1\na: b: c\n":                      2,
		"x: 1\ny: @z\n":                        2,
		"a: ]\n":                               1,
	} {
		var r Report
		YAML(NewSource("f.yaml", []byte(text)), &r)
		if len(r.Diagnostics) != 1 || r.Diagnostics[0].Line != want {
			t.Errorf("%q: %v, want line %d", text, r.Diagnostics, want)
		}
	}
}
