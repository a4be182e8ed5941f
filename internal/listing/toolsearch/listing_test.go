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
		l := Listing{Favourites: test.favourites, Call: CallOne}
		search, _ := l.Search(func(*tools.Entry) bool { return true })
		list := l.List(search, entries(t, 200, test.more))
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
		got, err := Wrapped(tools.CallName, json.RawMessage(test.params), json.RawMessage(test.arguments))
		if err != nil || string(got) != test.want {
			t.Errorf("%s %s: %s, %v; want %s", test.params, test.arguments, got, err, test.want)
		}
	}
}

// byOne is the tool that calls every tool.
func byOne(*tools.Entry) string { return tools.CallName }

// Each risk has one tool that calls the tools of that risk and no others, and says by its annotations what it is.
func TestCallersAreSplitByRisk(t *testing.T) {
	catalog, _ := tools.NewCatalog(1, []tools.Source{{Extension: "x", Tools: []protocol.Tool{
		{Raw: json.RawMessage(`{"name":"get","annotations":{"readOnlyHint":true}}`)},
		{Raw: json.RawMessage(`{"name":"put"}`)},
		{Raw: json.RawMessage(`{"name":"rm","annotations":{"destructiveHint":true}}`)},
	}}}, nil)
	own := map[string]string{"ext_x_get": "ext_read", "ext_x_put": "ext_write", "ext_x_rm": "ext_destroy"}
	for name, right := range own {
		e, _ := catalog.Lookup(name)
		caller, _ := Own().Lookup(right)
		if risk := tools.RiskOf(caller.Annotations); risk != e.Risk {
			t.Errorf("the annotations of %s say %s, and it calls tools of %s", right, risk, e.Risk)
		}
		for _, by := range tools.SearchNames()[1:] {
			for _, call := range []string{"", CallSplit, CallOne} {
				l, want := Listing{Call: call}, right
				if call == CallOne {
					want = tools.CallName
				}
				err := l.CheckCaller(by, e)
				if (err == nil) != (by == want) || err != nil && !strings.Contains(err.Error(), "with "+want+",") {
					t.Errorf("call: %q: %s by %s: %v", call, name, by, err)
				}
			}
		}
	}
	text := Text(New(catalog, silent, nil).Find("get put rm", nil), func(e *tools.Entry) string { return own[e.Name] })
	for name, by := range own {
		if !strings.Contains(text, `{"name":"`+name+`","callWith":"`+by+`",`) {
			t.Errorf("no %s beside %s in %s", by, name, text)
		}
	}
}

// The search is listed with the tools that call others and are shown; without any, and without ext_find, there is none.
func TestSearchWithoutItsTools(t *testing.T) {
	for _, test := range []struct{ call, hidden, want string }{
		{CallSplit, "", "ext_destroy ext_find ext_read ext_write"}, {"", "", "ext_destroy ext_find ext_read ext_write"},
		{CallSplit, "ext_destroy", "ext_find ext_read ext_write"}, {CallOne, "", "ext_call ext_find"},
		{CallSplit, "ext_find", ""}, {CallOne, "ext_call", ""}, {CallSplit, "ext_destroy ext_read ext_write", ""},
	} {
		l := Listing{Call: test.call}
		list, ok := l.Search(func(e *tools.Entry) bool { return !slices.Contains(strings.Fields(test.hidden), e.Name) })
		var names []string
		for _, e := range list {
			names = append(names, e.Name)
		}
		if got := strings.Join(names, " "); ok != (test.want != "") || ok && got != test.want {
			t.Errorf("%+v: %s, %t", test, got, ok)
		}
	}
}
