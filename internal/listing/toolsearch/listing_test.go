package toolsearch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

func entries(t *testing.T, n int, more string) []*tools.Entry {
	t.Helper()
	s := tools.Source{Extension: "x"}
	for i := range n {
		s.Tools = append(s.Tools,
			protocol.Tool{Raw: json.RawMessage(fmt.Sprintf(`{"name":"t%03d","description":"tool %d"%s}`, i, i, more))})
	}
	catalog, ds := tools.NewCatalog(1,
		[]tools.Source{s, {Tools: []protocol.Tool{{Raw: json.RawMessage(`{"name":"host_tool"}`)}}}}, nil)
	if len(ds) > 0 {
		t.Fatal(ds)
	}
	return catalog.Entries()
}

// TestListIsBounded bounds the listed favourites.
func TestListIsBounded(t *testing.T) {
	big := `,"_meta":{"x":"` + strings.Repeat("x", 50_000) + `"}`
	for _, test := range []struct {
		favourites []string
		more       string
		want       int
	}{
		{nil, "", 3}, {[]string{"ext_x_t00*"}, "", 13}, {[]string{"ext_y_*", "*_t001"}, "", 4},
		{[]string{"*"}, "", 3 + maxFavourites}, {[]string{"*"}, big, 3 + maxBytes/50_150},
	} {
		l := Listing{Favourites: test.favourites}
		list := l.List(entries(t, 200, test.more))
		if names := []string{
			list[0].Name,
			list[1].Name,
		}; len(list) != test.want || !slices.Equal(names, []string{tools.CallName, tools.FindName}) {
			t.Errorf("%q: %d tools, want %d; the first are %q", test.favourites, len(list), test.want, names)
		}
	}
}

func TestSearches(t *testing.T) {
	l, list := DefaultListing(), entries(t, 200, "")
	l.SearchAbove = 100
	for _, test := range []struct {
		mode, client string
		entries      []*tools.Entry
		want         bool
	}{
		{ModeAll, `{}`, list, false}, {ModeSearch, `{}`, nil, true}, {ModeSearch, `{"name":"claude-code"}`, list, true},
		{ModeAuto, `{}`, list, true}, {ModeAuto, ``, list, true}, {ModeAuto, `{"name":"other"}`, list, true},
		{ModeAuto, `{"name":"claude-code"}`, list, false}, {ModeAuto, `{"name":"codex-mcp-client"}`, list, false},
		{ModeAuto, `{"name":"Visual Studio Code"}`, list, false}, {ModeAuto, `{}`, list[:2], false},
	} {
		if got := l.Searches(test.mode, json.RawMessage(test.client), test.entries); got != test.want {
			t.Errorf("%s %s with %d tools: %v", test.mode, test.client, len(test.entries), got)
		}
	}
}

func TestWrapped(t *testing.T) {
	for _, test := range []struct{ params, arguments, want string }{
		{``, `{"tool":"t"}`, `{"arguments":{},"name":"t"}`},
		{``, `{"tool":"t","arguments":null}`, `{"arguments":{},"name":"t"}`},
		{`{"name":"ext_call","arguments":{},"_meta":{"progressToken":12345678901234567890},"task":{"ttl":1.0}}`,
			`{"tool":"t","arguments":{"n":1.0}}`,
			`{"name":"t","arguments":{"n":1.0},"_meta":{"progressToken":12345678901234567890},"task":{"ttl":1.0}}`},
		{`{"_meta":{}}`, `{"arguments":{"a":1},"tool":"a\"b"}`, `{"_meta":{},"arguments":{"a":1},"name":"a\"b"}`},
	} {
		if got, err := Wrapped(json.RawMessage(test.params), json.RawMessage(test.arguments)); err != nil ||
			string(got) != test.want {
			t.Errorf("%s %s: %s, %v; want %s", test.params, test.arguments, got, err, test.want)
		}
	}
}
