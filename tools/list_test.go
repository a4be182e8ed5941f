package tools

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// listing lists every page and returns the names and the number of pages.
func listing(t *testing.T, c *Catalog, extension string, v View, visible func(*Entry) bool,
) (names []string, pages int) {
	t.Helper()
	for cursor := ""; ; {
		result, err := c.List(extension, cursor, v, visible)
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			ResultType, CacheScope string
			Tools                  []struct{ Name string }
			NextCursor             string
		}
		if err := json.Unmarshal(result, &page); err != nil {
			t.Fatalf("%v: %.200s", err, result)
		}
		modern := page.ResultType == "complete" && page.CacheScope == "private" && rawjson.Get(result, "ttlMs") != nil
		if modern != v.Modern {
			t.Errorf("%+v: %.200s", v, result)
		}
		for _, tool := range page.Tools {
			names = append(names, tool.Name)
		}
		if pages++; page.NextCursor == "" {
			return names, pages
		}
		cursor = page.NextCursor
	}
}

// manyTools returns an extension with n tools, every tenth of them for MCP Apps only.
func manyTools(n int) Source {
	s := Source{Extension: "x"}
	for i := range n {
		more := ""
		if i%10 == 0 {
			more = `,"_meta":{"ui":{"visibility":["app"]}}`
		}
		s.Tools = append(s.Tools, raw(fmt.Sprintf(`{"name":"t%04d"%s}`, i, more)))
	}
	return s
}

func TestList(t *testing.T) {
	c, _ := NewCatalog(1, []Source{manyTools(1000), {Extension: "y", Tools: []protocol.Tool{raw(`{"name":"a"}`)}}}, nil)
	odd := func(e *Entry) bool { return strings.ContainsAny(e.Tool[len(e.Tool)-1:], "13579") }
	for range 2 { // the second time from the cache
		for _, tt := range []struct {
			extension    string
			view         View
			visible      func(*Entry) bool
			tools, pages int
			first        string
		}{
			{"", View{}, nil, 901, 2, "ext_x_t0001"},
			{"", View{Pages: true}, nil, 1001, 3, "ext_x_t0000"},
			{"", View{Pages: true, Modern: true}, nil, 1001, 3, "ext_x_t0000"},
			{"x", View{Modern: true}, nil, 900, 2, "t0001"},
			{"x", View{Pages: true}, nil, 1000, 2, "t0000"},
			{"y", View{}, nil, 1, 1, "a"},
			{"", View{Pages: true}, odd, 500, 1, "ext_x_t0001"},
			{"x", View{Modern: true}, odd, 500, 1, "t0001"},
			{"", View{}, func(*Entry) bool { return false }, 0, 1, ""},
			{"none", View{Modern: true}, nil, 0, 1, ""},
		} {
			names, pages := listing(t, c, tt.extension, tt.view, tt.visible)
			if len(names) != tt.tools || pages != tt.pages || tt.first != "" && names[0] != tt.first {
				t.Errorf("%q, %+v: %d tools on %d pages, first %q; want %d, %d, %q", tt.extension, tt.view, len(names),
					pages, names[:min(1, len(names))], tt.tools, tt.pages, tt.first)
			}
		}
	}
}

// Cached pages outlive a catalog while the list is unchanged. A position where no page begins is answered but not
// cached.
func TestUnchangedListsAreShared(t *testing.T) {
	first := []Source{manyTools(600), {Extension: "y", Tools: []protocol.Tool{raw(`{"name":"a"}`)}}}
	c, _ := NewCatalog(1, first, nil)
	same, _ := NewCatalog(2, first, c)
	first[1].Tools = append(first[1].Tools, raw(`{"name":"b"}`))
	later, _ := NewCatalog(3, first, same)
	page := func(c *Catalog, extension, cursor string) *byte {
		t.Helper()
		result, err := c.List(extension, cursor, View{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return &result[0]
	}
	if !c.SameList(same) || c.SameList(later) {
		t.Error("which lists are the same")
	}
	if page(c, "", "") != page(same, "", "") || page(c, "", "") == page(later, "", "") ||
		page(c, "x", "") != page(later, "x", "") {
		t.Error("which pages are kept")
	}
	between := page(c, "", c.all.cursor(7))
	if again := page(c, "", c.all.cursor(7)); between == again {
		t.Error("a page between pages is kept")
	}
}

// The zero value is an empty catalog.
func TestZeroCatalog(t *testing.T) {
	var zero Catalog
	if n := len(zero.Entries()) + len(zero.Extension("x")); n > 0 {
		t.Errorf("%d entries", n)
	}
	for _, extension := range []string{"", "x"} {
		if names, pages := listing(t, &zero, extension, View{}, nil); len(names) > 0 || pages != 1 {
			t.Errorf("%q: %q on %d pages", extension, names, pages)
		}
	}
	empty, _ := NewCatalog(1, nil, &zero)
	if next, _ := NewCatalog(2, []Source{manyTools(1)}, empty); !zero.SameList(empty) || empty.SameList(next) {
		t.Error("which lists are the same")
	}
}
