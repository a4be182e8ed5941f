package toolsearch

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

func catalogOf(t testing.TB, prev *tools.Catalog, sources ...tools.Source) *tools.Catalog {
	t.Helper()
	catalog, ds := tools.NewCatalog(1, sources, prev)
	if len(ds) > 0 {
		t.Fatal(ds)
	}
	return catalog
}

func source(id string, descriptors ...string) tools.Source {
	s := tools.Source{Extension: id}
	for _, d := range descriptors {
		s.Tools = append(s.Tools, protocol.Tool{Raw: []byte(d)})
	}
	return s
}

func silent(string) string { return "" }

// shown returns the names of all tools of an answer.
func shown(a tools.Found) (names []string) {
	for _, e := range a.Best {
		names = append(names, e.Name)
	}
	for _, g := range a.More {
		for _, e := range g.Tools {
			names = append(names, e.Name)
		}
	}
	return names
}

// TestHiddenNeverFound checks that an answer depends on visible tools only: it equals the answer of an index without
// the hidden tools.
func TestHiddenNeverFound(t *testing.T) {
	catalog, describe := extensions(t)
	all := New(catalog, describe, nil)
	for seed := range 6 {
		visible := func(e *tools.Entry) bool {
			return (len(e.Name)*7+len(e.Descriptor))%6 != seed && e.Extension != "slack"
		}
		part, _ := catalog.Select(func(e *tools.Entry) (tools.Shown, bool) {
			return tools.Shown{Name: e.Name}, visible(e)
		}, nil)
		alone := New(part, describe, nil)
		for _, q := range slices.Concat(questions(t, "tuning.txt"), questions(t, "heldout.txt")) {
			got, want := shown(all.Find(q.query, visible)), shown(alone.Find(q.query, nil))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q (-without hidden tools +with):\n%s", q.query, diff)
			}
		}
	}
	if a := all.Find("slack channel", func(e *tools.Entry) bool { return false }); len(shown(a)) > 0 ||
		len(a.Extensions) > 0 {
		t.Errorf("a caller who sees nothing found %v", a)
	}
}

// A search of a toolset finds a tool by the name, the description and the arguments that are shown, and by nothing
// else.
func TestFindsByWhatIsShown(t *testing.T) {
	catalog := catalogOf(t, nil, source("tracker", `{"name":"frobnicate_widget","description":"Turns a turnstile.","inputSchema":`+
		`{"type":"object","properties":{"repo":{"description":"owner and repository"},"assignee":{"description":"whom to assign"},`+
		`"title":{"description":"headline"}}}}`), source("mail", `{"name":"send","description":"Sends a letter."}`))
	part, refused := catalog.Select(func(e *tools.Entry) (tools.Shown, bool) {
		if e.Tool != "frobnicate_widget" {
			return tools.Shown{Name: strings.TrimPrefix(e.Name, "ext_")}, true
		}
		return tools.Shown{Name: "file_bug", Description: "Reports what breaks.", Reshape: &tools.Reshape{
			Args: map[string]tools.Arg{
				"repo":     {Fix: []byte(`"acme/tracker"`)},
				"assignee": {Hide: true},
				"title":    {Describe: "symptom"},
			},
		}}, true
	}, nil)
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	all, x := New(catalog, silent, nil), New(part, silent, nil)
	for query, want := range map[string]string{
		"file a bug": "file_bug", "what breaks": "file_bug", "symptom": "file_bug", "title": "file_bug", "letter": "mail_send",
		"frobnicate": "", "widget": "", "turnstile": "", "repository": "", "assignee": "", "headline": "",
	} {
		got := shown(x.Find(query, nil))
		if want == "" && len(got) > 0 || want != "" && (len(got) == 0 || got[0] != want) {
			t.Errorf("%q finds %q, want %q first", query, got, want)
		}
		if known := shown(all.Find(query, nil)); want == "" && len(known) == 0 {
			t.Errorf("%q finds nothing without the toolset either", query)
		}
	}
	if e, _ := part.Lookup("file_bug"); e.Tokens() >= e.Original().Tokens() {
		t.Errorf("%d tokens, %d before", e.Tokens(), e.Original().Tokens())
	}
}

func TestPartsAreReused(t *testing.T) {
	a, b := source("a", `{"name":"one","description":"first"}`), source("b", `{"name":"two"}`)
	first := catalogOf(t, nil, a, b)
	x := New(first, silent, nil)
	second := catalogOf(t, first, a, source("b", `{"name":"two"}`, `{"name":"three"}`))
	y := New(second, silent, x)
	if x.parts[0] != y.parts[0] || x.parts[1] == y.parts[1] {
		t.Error("the part of a is not reused, or that of b is")
	}
	if z := New(second, func(id string) string { return id + " describes itself" }, y); z.parts[0] == y.parts[0] {
		t.Error("the part of a is reused, though its description has changed")
	}
	if !y.Of(second) || y.Of(first) {
		t.Error("an index does not know its catalog")
	}
}

func TestIndexes(t *testing.T) {
	first := catalogOf(t, nil, source("a", `{"name":"one"}`))
	x := NewIndexes(silent, nil, nil)
	index := x.Of("", first)
	if x.Of("", first) != index || x.Of("review", first) == index {
		t.Error("an index is made twice, or is of two toolsets")
	}
	y := NewIndexes(silent, func(toolset string) bool { return toolset == "" }, x)
	if y.Of("", first) != index || len(y.slots) != 1 {
		t.Error("the index of the same catalog is not kept, or that of a toolset that is gone is")
	}
	if second := y.Of("", catalogOf(t, first, source("a", `{"name":"one"}`), source("b", `{"name":"two"}`))); second ==
		index || second.parts[0] != index.parts[0] {
		t.Error("the index does not follow the catalog, or shares no part with the one before")
	}
}

// TestConcurrentFind searches concurrently while the catalog changes.
func TestConcurrentFind(t *testing.T) {
	catalog, describe := extensions(t)
	part, _ := catalog.Select(func(e *tools.Entry) (tools.Shown, bool) {
		return tools.Shown{Name: e.Name}, e.Extension != "slack"
	}, nil)
	x := NewIndexes(describe, nil, nil)
	want := map[*tools.Catalog][]string{
		catalog: shown(New(catalog, describe, nil).Find("answer in a thread", nil)),
		part:    shown(New(part, describe, nil).Find("answer in a thread", nil)),
	}
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 20 {
				for c, names := range want {
					index := x.Of([]string{"", "review"}[n%2], c)
					if got := shown(index.Find("answer in a thread", nil)); !slices.Equal(got, names) {
						t.Errorf("found %q, want %q", got, names)
					}
				}
				NewIndexes(describe, func(string) bool { return true }, x)
			}
		})
	}
	all.Wait()
}

func TestStem(t *testing.T) {
	for _, test := range []struct{ words, want string }{
		{"note notes noting", "note"}, {"move moving moved", "move"}, {"plan planning planned plans", "plan"},
		{"file filing files", "file"},
		{"query queries", "query"}, {"create creates created creating creation", "creat"},
		{"address addresses", "address"}, {"fix fixing", "fix"},
		{"status", "status"}, {"add adding added", "add"}, {"pay paying", "pay"}, {"Größe", "größe"}, {"us", "us"},
		{"ing", "ing"},
	} {
		for _, word := range split(test.words) {
			if word != test.want {
				t.Errorf("%s: %s, want %s", test.words, word, test.want)
			}
		}
	}
}

func TestText(t *testing.T) {
	x := New(catalogOf(t, nil, source("a", `{"name":"one","description":"First \"one\". More."}`,
		`{"name":"two","description":"Second."}`, `{"name":"three"}`), source("big", many(40)...)), silent, nil)
	for query, want := range map[string]string{
		"first": "The tools that match best:\n{\"name\":\"ext_a_one\",\"description\":\"[ext:a] First \\\"one\\\". " +
			"More.\",\"inputSchema\":{\"type\":\"object\"}}\n",
		"number":  "\nMore of big:\next_big_number_13()\n",
		"numbers": "\n25 more are not shown; search with other words.\n\nCall one with ext_call: ",
		"nothing": "No tool matches these words. There are tools of a, big. Search again, with words that their " +
			"tools may use.",
	} {
		if text := Text(x.Find(query, nil), byOne); !strings.Contains(text, want) {
			t.Errorf("%s: no %q in\n%s", query, want, text)
		}
	}
}

func TestFind(t *testing.T) {
	x := New(catalogOf(t, nil,
		tools.Source{
			Tools: []protocol.Tool{{Raw: []byte(`{"name":"host_tool","description":"of the host, about weather"}`)}},
		},
		source("wetter", `{"name":"vorhersage","description":"Liefert die Wettervorhersage für Städte"}`),
		source("tenki", `{"name":"yohou","description":"都市の天気予報を返す"}`),
		source("accounts", `{"name":"createUserAccount","title":"Sign up"}`),
		source("big", many(40)...),
	), silent, nil)
	for _, test := range []struct{ query, first string }{
		{"Wettervorhersage Städte", "ext_wetter_vorhersage"},
		{"天気", "ext_tenki_yohou"},
		{"user accounts", "ext_accounts_createUserAccount"},
		{"createUserAccount", "ext_accounts_createUserAccount"},
		{"signing up", "ext_accounts_createUserAccount"},
		{"number 7", "ext_big_number_7"},
	} {
		if a := x.Find(test.query, nil); len(a.Best) == 0 || a.Best[0].Name != test.first {
			t.Errorf("%q: %v, want %s first", test.query, shown(a), test.first)
		}
	}
	a := x.Find("number", nil)
	if len(a.Best) != MaxBest || len(a.More) != 1 || len(a.More[0].Tools) != MaxMore ||
		a.More[0].Left != 40-MaxBest-MaxMore {
		t.Errorf("of 40 tools: %v, %+v", shown(a), a.More)
	}
	for _, query := range []string{"", "the of and", "zzz", "weather", strings.Repeat("x ", 1<<20), "\xff\xfe\x00"} {
		a := x.Find(query, nil)
		if diff := cmp.Diff([]string{"accounts", "big", "tenki", "wetter"}, a.Extensions); len(shown(a)) > 0 ||
			diff != "" {
			t.Errorf("%.20q: %v\n%s", query, shown(a), diff)
		}
	}
}

func many(n int) (descriptors []string) {
	for i := range n {
		descriptors = append(descriptors, fmt.Sprintf(`{"name":"number_%d"}`, i))
	}
	return descriptors
}

// Texts of extensions cannot exceed the bounds of an index or an answer.
func TestBounds(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("天气预报", 5000),
		strings.Repeat("aB", 20_000),
		strings.Repeat("x ", 5000),
		strings.Repeat("é", 20_000),
		"a " + strings.Repeat("天", 5000),
	} {
		words := split(text)
		if len(words) == 0 || len(words) > maxWords {
			t.Errorf("%d words of %.20q", len(words), text)
		}
		for _, word := range words {
			if len(word) > maxWord {
				t.Fatalf("a word of %d bytes of %.20q", len(word), text)
			}
		}
	}
	var properties []string
	for n := range 2400 {
		properties = append(properties,
			fmt.Sprintf(`"argument%d":{"type":"string","description":"%s"}`, n, strings.Repeat("w", 40)))
	}
	fat := fmt.Sprintf(`{"name":"%%s","description":"fat","inputSchema":{"type":"object","properties":{%s}}}`,
		strings.Join(properties, ","))
	catalog := catalogOf(t, nil,
		source("a", fmt.Sprintf(fat, "one"), fmt.Sprintf(fat, "two"), `{"name":"fat_but_small"}`))
	if n := len(countWords(catalog.Entries()[1])); n > maxToolWords {
		t.Errorf("a tool has %d words", n)
	}
	text := Text(New(catalog, silent, nil).Find("fat", nil), byOne)
	if len(text) > maxDefinitions || !strings.Contains(text, "\next_a_one(argument0?: string, ") ||
		!strings.Contains(text, `{"name":"ext_a_fat_but_small",`) {
		t.Errorf("%d bytes: %.2000s", len(text), text)
	}
}

func TestSignature(t *testing.T) {
	for _, test := range []struct{ descriptor, want string }{
		{`{"name":"t"}`, `ext_x_t()`},
		{`{"name":"t","title":"Title"}`, `ext_x_t() - Title`},
		{`{"name":"t","description":"Does it. Then more.","inputSchema":{"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"string"}},"required":["a"]}}`,
			`ext_x_t(a: string, b?: integer) - Does it.`},
		{`{"name":"t","description":"One\nTwo","inputSchema":{"type":"object","properties":{"a":{"enum":["x","y"]},"b":{"type":"array","items":{"type":"string"}},"c":{"type":["string","null"]},"d":{},"e":true,"f":{"type":"array","items":{"enum":["p","q"]}}}}}`,
			`ext_x_t(a?: "x"|"y", b?: string[], c?: string|null, d?: any, e?: any, f?: array) - One`},
		{`{"name":"t","inputSchema":{"type":"object","properties":{"a\nb":{"type":"string","enum":["` +
			strings.Repeat("long", 30) + `"]}}}}`, `ext_x_t(a b?: string)`},
		{`{"name":"t","description":"One\u2028More of git:\u2029ext_git_push()"}`,
			`ext_x_t() - One More of git: ext_git_push()`},
	} {
		e := catalogOf(t, nil, source("x", test.descriptor)).Entries()[0]
		if diff := cmp.Diff(test.want, Signature(e)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.descriptor, diff)
		}
	}
}

// BenchmarkFind searches 10,000 tools of 200 extensions. The goal is 1 ms per query. On two processors of an AMD
// EPYC: 0.2 ms, and 0.4 ms with a function for visibility.
func BenchmarkFind(b *testing.B) {
	catalog := large(b, 200, 50)
	x := New(catalog, silent, nil)
	for name, visible := range map[string]func(*tools.Entry) bool{
		"all":      nil,
		"filtered": func(e *tools.Entry) bool { return len(e.Name)%10 > 0 },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if a := x.Find("open a new issue about the login crash in my repository",
					visible); len(a.Best) != MaxBest {
					b.Fatal(shown(a))
				}
			}
		})
	}
}

// BenchmarkNew builds an index of 10,000 tools, during which the first search waits: 119 ms, or 10 ms after a change
// of one extension.
func BenchmarkNew(b *testing.B) {
	catalog := large(b, 200, 50)
	other, _ := catalog.Select(func(e *tools.Entry) (tools.Shown, bool) {
		return tools.Shown{Name: e.Name}, e.Name != catalog.Entries()[0].Name
	}, catalog)
	x := New(catalog, silent, nil)
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			New(catalog, silent, nil)
		}
	})
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			New(other, silent, x)
		}
	})
}

// large returns a catalog of extensions with the tools of testdata/tools.json in turn.
func large(tb testing.TB, extensionCount, each int) *tools.Catalog {
	tb.Helper()
	small, _ := extensions(tb)
	known := small.Entries()
	var sources []tools.Source
	for x := range extensionCount {
		s := tools.Source{Extension: fmt.Sprintf("extension%d", x)}
		for n := range each {
			e := known[(x*each+n)%len(known)]
			raw := strings.Replace(string(e.Raw), `"name": "`, fmt.Sprintf(`"name": "n%d_`, n), 1)
			s.Tools = append(s.Tools, protocol.Tool{Raw: []byte(raw)})
		}
		sources = append(sources, s)
	}
	return catalogOf(tb, nil, sources...)
}
