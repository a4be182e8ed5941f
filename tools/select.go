package tools

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
)

// Shown is how a selection shows a tool.
type Shown struct {
	Name        string   // replaces the registered name
	Description string   // replaces the labelled description; "" keeps it
	Reshape     *Reshape // how its arguments and results are shown; nil: as they are
}

// Refused is a tool that a selection leaves out although it was chosen.
type Refused struct {
	*Entry
	Reason string // why it cannot be reshaped; "": it has no unique name
}

// Registered returns the registered name of the tool, which differs from Name in a selection.
func (e *Entry) Registered() string {
	if e.selected != nil {
		return e.selected.Name
	}
	return e.Name
}

// Select returns a catalog of those tools of c, withheld ones included, for which choose returns true, shown as choose
// says. The catalog has its own lists, pages and cursors. A tool whose new name is longer than [MaxName] or already
// taken, or that cannot be reshaped, is left out and returned as refused. If tools of two extensions want the same
// name, neither gets it; the host's own tools keep their names. prev is the previous selection, or nil; its unchanged
// entries and lists are reused.
func (c *Catalog) Select(choose func(*Entry) (Shown, bool), prev *Catalog) (selection *Catalog, refused []Refused) {
	s := &Catalog{
		generation: c.generation,
		byName:     make(map[string]*Entry),
		lists:      make(map[string]*list),
		withheld:   make(map[string]*Entry),
		withheldOf: make(map[string][]string),
	}
	claims := make(map[string][]claim)
	for to, from := range map[*map[string]*Entry]map[string]*Entry{&s.byName: c.byName, &s.withheld: c.withheld} {
		for _, e := range from {
			if as, ok := choose(e); ok {
				claims[as.Name] = append(claims[as.Name], claim{e, as, *to})
			}
		}
	}
	for name, all := range claims {
		for _, one := range all {
			if len(name) > MaxName ||
				(len(all) > 1 || slices.Contains(SearchNames(), name)) && one.entry.Extension != "" {
				refused = append(refused, Refused{Entry: one.entry})
				continue
			}
			e, err := prev.shown(one.entry, one.as)
			if err != nil {
				refused = append(refused, Refused{one.entry, err.Error()})
				continue
			}
			one.to[name] = e
		}
	}
	slices.SortFunc(refused, func(a, b Refused) int { return cmp.Compare(a.Name, b.Name) })
	for name, e := range s.withheld {
		s.withheldOf[e.Extension] = append(s.withheldOf[e.Extension], name)
	}
	all := slices.SortedFunc(maps.Values(s.byName), func(a, b *Entry) int { return cmp.Compare(a.Name, b.Name) })
	of := make(map[string][]*Entry)
	for _, e := range all {
		of[e.Extension] = append(of[e.Extension], e)
	}
	for id, entries := range of {
		slices.SortFunc(entries, func(a, b *Entry) int { return cmp.Compare(a.Tool, b.Tool) })
		s.lists[id] = s.newList(id, entries, prev)
	}
	s.all = s.newList("", all, prev)
	return s, refused
}

// claim is a tool that wants a name in a selection.
type claim struct {
	entry *Entry
	as    Shown
	to    map[string]*Entry // the selection's entries
}

// shown returns e as shown: e itself, the previous selection's equal entry, or a new one. The error says why e cannot
// be reshaped.
func (c *Catalog) shown(e *Entry, as Shown) (*Entry, error) {
	if as.Name == e.Name && as.Description == "" && as.Reshape == nil {
		return e, nil
	}
	description := cmp.Or(display.Visible(as.Description), e.Description)
	if c != nil {
		if known := c.registered(as.Name); known != nil && known.selected == e && known.Description == description &&
			known.reshaped.is(as.Reshape) {
			return known, nil
		}
	}
	own := e.Own
	if as.Description != "" {
		own = rawjson.Set(own, "description", rawjson.Quote(description))
	}
	n := *e
	n.selected, n.Name, n.Description, n.Own = e, as.Name, description, own
	n.Descriptor = rawjson.Edit(e.Descriptor,
		map[string]json.RawMessage{"name": rawjson.Quote(n.Name), "description": rawjson.Quote(description)})
	if as.Reshape != nil {
		if err := e.reshape(&n, as.Reshape); err != nil {
			return nil, err
		}
	}
	n.tokens = (len(anthropicTool(&n, description, n.InputSchema)) + 3) / 4
	return &n, nil
}
