package tools

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/protocol"
)

// raw returns a tool as an extension sends it.
func raw(descriptor string) protocol.Tool { return protocol.Tool{Raw: json.RawMessage(descriptor)} }

// one returns the only entry of a catalog with this descriptor of extension x.
func one(t testing.TB, descriptor string) *Entry {
	t.Helper()
	c, ds := NewCatalog(1, []Source{{Extension: "x", Tools: []protocol.Tool{raw(descriptor)}}}, nil)
	if len(c.Entries()) != 1 || codes(ds) != "" && codes(ds) != "hidden_text" {
		t.Fatalf("%d tools from %s, diagnostics %v", len(c.Entries()), display.Cut(descriptor, 200), ds)
	}
	return c.Entries()[0]
}

func names(es []*Entry) (list []string) {
	for _, e := range es {
		list = append(list, e.Name)
	}
	return list
}

func TestCatalogNamesTools(t *testing.T) {
	sources := []Source{
		{Extension: "b_a", Tools: []protocol.Tool{raw(`{"name":"c"}`)}},
		{Extension: "b", Tools: []protocol.Tool{raw(`{"name":"z"}`), raw(`{"name":"a_c"}`)}},
		{
			Extension: "owner.server",
			Tools: []protocol.Tool{
				{Name: "declared", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`)},
			},
		},
	}
	before, _ := NewCatalog(6, sources[:1], nil) // b_a had the name that both want
	c, ds := NewCatalog(7, sources, before)
	want := []string{"ext_b_a_c", "ext_b_z", "ext_owner_server_declared"}
	if diff := cmp.Diff(want, names(c.Entries())); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if len(ds) != 1 || ds[0].Code != "tool_name_taken" || ds[0].Level != protocol.LevelError || ds[0].Extension != "b" {
		t.Errorf("diagnostics %v, want one tool_name_taken of b", ds)
	}
	if e, ok := c.Lookup("ext_b_a_c"); !ok || e.Extension != "b_a" || e.Tool != "c" {
		t.Errorf("Lookup found %+v", e)
	}
	if _, ok := c.LookupIn("b", "a_c"); ok {
		t.Error("LookupIn found a tool whose name another extension has")
	}
	if _, ok := c.LookupIn("b", "c"); ok {
		t.Error("LookupIn found a tool of another extension")
	}
	if got := c.Extension("b"); len(got) != 1 || got[0].Tool != "z" {
		t.Errorf("Extension(b) = %v", names(got))
	}
	if c.Generation() != 7 {
		t.Errorf("generation %d", c.Generation())
	}
}

// Names do not depend on the order of a list, duplicates and limits included.
func TestNamesDoNotDependOnOrder(t *testing.T) {
	var tools []protocol.Tool
	for i := range MaxTools + 5 {
		tools = append(tools, raw(fmt.Sprintf(`{"name":"t%c%d"}`, "._"[i%2], i/2)))
	}
	var want []string
	for range 3 {
		c, ds := NewCatalog(1, []Source{{Extension: "x", Tools: tools}}, nil)
		got := names(c.Entries())
		if len(got) != MaxTools || strings.Count(codes(ds), "tool_limit") != 1 {
			t.Fatalf("%d tools, want %d and one tool_limit", len(got), MaxTools)
		}
		if want == nil {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("another order, other names:\n%s", diff)
		}
		rand.Shuffle(len(tools), func(i, j int) { tools[i], tools[j] = tools[j], tools[i] })
	}
}

// If two tools of an extension want one registered name, the tool that has it keeps it, even while withheld. If neither
// has it, the tool whose own name is in it unchanged gets it.
func TestNamesStayWithinAnExtension(t *testing.T) {
	dot, underscore := raw(`{"name":"a.b"}`), raw(`{"name":"a_b"}`)
	for _, tt := range []struct {
		name  string
		steps []Source
		want  string // the tool that gets the plain name
	}{
		{"the exact name first", []Source{{Tools: []protocol.Tool{dot, underscore}}}, "a_b"},
		{"a newcomer that sorts first",
			[]Source{{Tools: []protocol.Tool{underscore}}, {Tools: []protocol.Tool{dot, underscore}}}, "a_b"},
		{"an exact newcomer", []Source{{Tools: []protocol.Tool{dot}}, {Tools: []protocol.Tool{dot, underscore}}},
			"a.b"},
		{"a withheld tool", []Source{
			{Tools: []protocol.Tool{dot}},
			{Tools: []protocol.Tool{dot, underscore}, Withheld: []string{"a.b"}},
		}, "a.b"},
		{"withheld before", []Source{
			{Tools: []protocol.Tool{dot}, Withheld: []string{"a.b"}},
			{Tools: []protocol.Tool{dot, underscore}},
		}, "a.b"},
		{"the tool is gone", []Source{{Tools: []protocol.Tool{underscore}}, {Tools: []protocol.Tool{dot}}}, "a.b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c *Catalog
			for i, s := range tt.steps {
				s.Extension = "x"
				c, _ = NewCatalog(uint64(i), []Source{s}, c)
			}
			if e := c.registered("ext_x_a_b"); e == nil || e.Tool != tt.want {
				t.Errorf("ext_x_a_b is %+v, want %s", e, tt.want)
			}
		})
	}
}

func TestDuplicateToolIsDropped(t *testing.T) {
	c, ds := NewCatalog(1, []Source{{Extension: "x", Tools: []protocol.Tool{
		raw(`{"name":"a","description":"first"}`), raw(`{"name":"b"}`), raw(`{"name":"a","description":"second"}`),
	}}}, nil)
	if codes(ds) != "tool_duplicate" || len(c.Entries()) != 2 || c.Entries()[0].Description != "[ext:x] first" {
		t.Errorf("%v, diagnostics %v", names(c.Entries()), ds)
	}
}

func TestBadDescriptorCostsOneTool(t *testing.T) {
	c, ds := NewCatalog(1, []Source{{Extension: "x", Tools: []protocol.Tool{
		raw(`{"name":"good"}`), raw(`{`), raw(`{"name":3}`), raw(`{"name":"type","inputSchema":{"type":"string"}}`),
		raw(`{"name":"a\u202eb"}`), raw(`{"name":"hides","title":"x\u202e"}`),
		raw(`{"name":"remote","inputSchema":{"$ref":"http://192.0.2.1/s.json"}}`),
	}}}, nil)
	if got := names(c.Entries()); !slices.Equal(got, []string{"ext_x_good", "ext_x_hides", "ext_x_remote"}) {
		t.Errorf("left: %v", got)
	}
	want := "tool_descriptor_invalid tool_descriptor_invalid tool_descriptor_invalid tool_name_invalid hidden_text " +
		"tool_schema_unchecked"
	if codes(ds) != want {
		t.Errorf("diagnostics %v", ds)
	}
}

func TestCompiledSchemasAreReused(t *testing.T) {
	sources := []Source{{Extension: "x",
		Tools: []protocol.Tool{raw(`{"name":"a","inputSchema":{"type":"object","required":["q"]}}`),
			raw(`{"name":"bad","inputSchema":{"type":"object","properties":{"p":{"pattern":"(?=a)"}}}}`)}}}
	first, ds1 := NewCatalog(1, sources, nil)
	second, ds2 := NewCatalog(2, sources, first)
	for i := range first.Entries() {
		if first.Entries()[i].schema != second.Entries()[i].schema {
			t.Errorf("%s was compiled again", first.Entries()[i].Name)
		}
	}
	if diff := cmp.Diff(ds1, ds2); diff != "" || codes(ds2) != "tool_schema_unchecked" {
		t.Errorf("diagnostics of the second generation differ: %v\n%s", ds2, diff)
	}
}

// Reused entries equal new ones, even if names are freed or taken.
func TestReuseChangesNothing(t *testing.T) {
	x := Source{
		Extension: "x",
		Tools: []protocol.Tool{raw(`{"name":"ok"}`), raw(`{"name":"odd name","description":"d"}`), raw(`{`),
			raw(`{"name":"ok","title":"again"}`),
			raw(`{"name":"bad","inputSchema":{"properties":{"p":{"pattern":"(?=a)"}}}}`), raw(`{"name":"a\u202eb"}`)},
	}
	a, b := Source{
		Extension: "a",
		Tools:     []protocol.Tool{raw(`{"name":"c.d"}`)},
	}, Source{
		Extension: "b",
		Tools:     []protocol.Tool{raw(`{"name":"c.d","inputSchema":{"required":["q"]}}`), raw(`{"name":"c_d"}`)},
	}
	changed := Source{
		Extension: "x",
		Tools:     slices.Concat([]protocol.Tool{raw(`{"name":"ok","title":"first now"}`)}, x.Tools),
	}
	var prev *Catalog
	for i, sources := range [][]Source{{x, a, b}, {x, b}, {b, a, changed}, {x, a, b}, {x, a, b}} {
		want, wantDiags := NewCatalog(1, sources, nil)
		got, diags := NewCatalog(1, sources, prev)
		if diff := cmp.Diff(wantDiags, diags); diff != "" {
			t.Errorf("step %d, diagnostics (-want +got):\n%s", i, diff)
		}
		same := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".schema" }, cmp.Ignore())
		if diff := cmp.Diff(want.Entries(), got.Entries(), cmp.AllowUnexported(Entry{}, appUse{}), same); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
		if i == 4 && !slices.Equal(got.Entries(), prev.Entries()) {
			t.Error("entries were made again although nothing changed")
		}
		prev = got
	}
}

func TestPage(t *testing.T) {
	var tools []protocol.Tool
	for i := range 25 {
		tools = append(tools, raw(fmt.Sprintf(`{"name":"t%02d"}`, i)))
	}
	c, _ := NewCatalog(3, []Source{{Extension: "x", Tools: tools}, {Extension: "y", Tools: tools[:1]}}, nil)
	for _, test := range []struct {
		extension    string
		limit, total int
		first        string
	}{
		{"", 10, 26, "ext_x_t00"},
		{"x", 10, 25, "t00"},
		{"", 0, 26, "ext_x_t00"},
		{"y", 1, 1, "t00"},
		{"x", 5, 25, "t00"},
		{"none", 5, 0, ""},
	} {
		var got []json.RawMessage
		for cursor := ""; ; {
			page, next, err := c.Page(test.extension, cursor, test.limit, nil)
			if err != nil {
				t.Fatal(err)
			}
			if test.limit > 0 && len(page) > test.limit {
				t.Errorf("a page of %d, limit %d", len(page), test.limit)
			}
			if got = append(got, page...); next == "" {
				break
			}
			cursor = next
		}
		if len(got) != test.total || test.total > 0 && !strings.Contains(string(got[0]), `"`+test.first+`"`) {
			t.Errorf("%+v: %d tools, first %s", test, len(got), got[:min(1, len(got))])
		}
	}
}

func TestPageEndsAtBytes(t *testing.T) {
	var tools []protocol.Tool
	big := strings.Repeat("v", 200<<10)
	for i := range 50 {
		tools = append(tools, raw(fmt.Sprintf(`{"name":"t%d","x":%q}`, i, big)))
	}
	c, _ := NewCatalog(1, []Source{{Extension: "x", Tools: tools}}, nil)
	page, next, err := c.Page("", "", 0, nil)
	if size := len(page) * len(big); err != nil || next == "" || size > maxPageBytes || size < maxPageBytes/2 {
		t.Errorf("%d bytes in the page, next %q, %v", size, next, err)
	}
}

func TestPageRefusesForeignCursor(t *testing.T) {
	tools := []protocol.Tool{raw(`{"name":"a"}`), raw(`{"name":"b"}`)}
	c, _ := NewCatalog(1, []Source{{Extension: "x", Tools: tools}}, nil)
	same, _ := NewCatalog(2, []Source{{Extension: "x", Tools: tools}}, c)
	later, _ := NewCatalog(3, []Source{{Extension: "x", Tools: append(tools, raw(`{"name":"c"}`))}}, same)
	_, cursor, err := c.Page("", "", 1, nil)
	if err != nil || cursor == "" {
		t.Fatalf("cursor %q, %v", cursor, err)
	}
	for _, test := range []struct {
		name              string
		catalog           *Catalog
		extension, cursor string
	}{
		{"another list", later, "", cursor},
		{"another extension", c, "x", cursor},
		{"garbage", c, "", "garbage!"},
		{"out of range", c, "", c.all.cursor(2)},
		{"negative", c, "", c.all.cursor(-1)},
	} {
		_, _, err := test.catalog.Page(test.extension, test.cursor, 1, nil)
		if protocol.KindOf(err) != protocol.InvalidArguments {
			t.Errorf("%s: %v, want invalid_arguments", test.name, err)
		}
	}
	if page, _, err := same.Page("", cursor, 1, nil); err != nil || len(page) != 1 {
		t.Errorf("the same list in a later catalog: %d tools, %v", len(page), err)
	}
}

func TestTokens(t *testing.T) {
	e := one(t, `{"name":"a","description":"b"}`)
	form := `{"name":"ext_x_a","description":"[ext:x] b","input_schema":{"type":"object"}}`
	if want := (len(form) + 3) / 4; e.Tokens() != want {
		t.Errorf("%d tokens, want %d", e.Tokens(), want)
	}
}

func BenchmarkNewCatalog(b *testing.B) {
	var tools []protocol.Tool
	for i := range 1000 {
		tools = append(tools, raw(
			fmt.Sprintf(`{"name":"tool_%d","description":"Does thing %[1]d.","inputSchema":{"type":"object",
			"properties":{"city":{"type":"string","description":"City %[1]d"},"days":{"type":"integer","minimum":1},
			"units":{"enum":["metric","imperial"]}},"required":["city"],"additionalProperties":false}}`, i)))
	}
	sources := []Source{{Extension: "x", Tools: tools}}
	prev, _ := NewCatalog(1, sources, nil)
	for name, prev := range map[string]*Catalog{"first": nil, "next": prev} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				NewCatalog(2, sources, prev)
			}
		})
	}
}
