// Package owners records which extension lists a resource, a prompt or an item of an extension of MCP.
package owners

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Index maps resources, templates, prompts and items to the extension that lists them. It is filled from the
// lists that callers request. The zero value is empty. It is safe for concurrent use.
type Index struct {
	mu        sync.Mutex
	listed    time.Time             // when everything was last listed to find an owner
	order     []string              // extensions that list resources; the first owns a URI that several list
	resources map[string]keys       // by extension
	templates map[string][]template // by extension
	prompts   map[string]prompt     // by registered name
	families  map[string]items      // of extensions of MCP, by list method
	shadows   map[string][]Shadow   // by list method
	refused   error                 // policy's denial of a list when everything was last listed; nil: none
	caller    string                // for which everything was listed
}

// keys are the URIs, names or ids of the items that one extension lists.
type keys map[string]struct{}

func (k keys) has(key string) bool {
	_, ok := k[key]
	return ok
}

type template struct {
	text    string
	pattern *regexp.Regexp
}

type prompt struct{ extension, name string }

// List is a kind of list.
type List struct {
	Method string // lists the items
	Key    string // the member that names an item; "": a list of an extension of MCP
}

// Order sorts the extensions of a list by precedence: first those that listed it before, so that an extension that
// lists for the first time takes no URI from these, then the others.
func (o *Index) Order(method string, extensions []string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.order
	if f, ok := o.families[method]; ok {
		before = f.order
	}
	place := func(id string) int {
		if at := slices.Index(before, id); at >= 0 {
			return at
		}
		return len(before)
	}
	return slices.SortedStableFunc(slices.Values(extensions),
		func(a, b string) int { return cmp.Compare(place(a), place(b)) })
}

// Update records the items that each extension of order lists, and returns those that the caller's toolset shows,
// under its names. What is known of the extensions of kept, which did not list for this caller, stays. shadowed holds
// new conflicts: what two extensions list now and did not before.
func (o *Index) Update(l List, order []string, each [][]json.RawMessage, kept []string, view *toolset.View,
) (shown []json.RawMessage, shadowed []Shadow) {
	if l.Key == "" {
		return o.updateFamily(l.Method, order, each, kept, view)
	}
	var names map[prompt]string
	if l.Key == "name" {
		names = o.namePrompts(order, each, kept)
	}
	shown, of, templates := l.collect(order, each, names, view)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch l.Key {
	case "uri":
		for _, id := range kept {
			of[id] = o.resources[id]
		}
		o.order, o.resources = order, of
	case "uriTemplate":
		for _, id := range kept {
			templates[id] = o.templates[id]
			for _, t := range templates[id] {
				of[id][t.text] = struct{}{}
			}
		}
		o.order, o.templates = order, templates
	case "name":
		o.prompts = make(map[string]prompt, len(names))
		for p, name := range names {
			o.prompts[name] = p
		}
		return shown, nil
	}
	return shown, o.setShadows(l.Method, order, of)
}

// collect returns the items that view shows, the keys of all items by extension and, of templates, their patterns.
// names are the registered names of prompts.
func (l List) collect(order []string, each [][]json.RawMessage, names map[prompt]string, view *toolset.View,
) (shown []json.RawMessage, of map[string]keys, templates map[string][]template) {
	seen := make(keys)
	of, templates = make(map[string]keys, len(order)), make(map[string][]template)
	for n, id := range order {
		of[id] = make(keys, len(each[n]))
		for _, item := range each[n] {
			key, _ := rawjson.Text(rawjson.Get(item, l.Key))
			if of[id].has(key) {
				continue // listed twice
			}
			visible := view.ShowsItem(id, l.Method, item)
			of[id][key] = struct{}{}
			switch l.Key {
			case "uri":
				if !visible || seen.has(key) {
					continue
				}
				seen[key] = struct{}{}
			case "uriTemplate":
				templates[id] = append(templates[id], template{key, templatePattern(key)})
			case "name":
				name, ok := names[prompt{id, key}]
				if !ok {
					continue
				}
				item = rawjson.Set(item, "name", rawjson.Quote(view.Rename(name)))
			}
			if visible {
				shown = append(shown, item)
			}
		}
	}
	return shown, of, templates
}

// namePrompts returns the registered names of the prompts listed by order or known of kept. A prompt keeps its name.
// Of new prompts that would share a name, one whose own name needs no replaced character takes precedence.
func (o *Index) namePrompts(order []string, each [][]json.RawMessage, kept []string) map[prompt]string {
	o.mu.Lock()
	before := maps.Clone(o.prompts)
	o.mu.Unlock()
	names, taken := make(map[prompt]string), make(keys)
	for name, p := range before {
		if slices.Contains(kept, p.extension) {
			names[p], taken[name] = name, struct{}{}
		}
	}
	var turns [3][]prompt
	for n, id := range order {
		for _, item := range each[n] {
			key, _ := rawjson.Text(rawjson.Get(item, "name"))
			p, plain, turn := prompt{id, key}, tools.NameOf(id, key), 2
			switch {
			case before[plain] == p:
				turn = 0
			case strings.HasSuffix(plain, key):
				turn = 1
			}
			turns[turn] = append(turns[turn], p)
		}
	}
	for _, p := range slices.Concat(turns[:]...) {
		if _, named := names[p]; named {
			continue
		}
		if name, _, ok := tools.Register(p.extension, p.name, taken.has); ok {
			names[p], taken[name] = name, struct{}{}
		}
	}
	return names
}

// Shadow is a set of URIs or keys of an extension that an earlier extension lists too: clients of all extensions
// reach the items of the earlier one.
type Shadow struct {
	Method    string // the list method
	Extension string
	By        string // the earlier extension
	Example   string // the first of the URIs or keys
	Count     int
}

// setShadows finds what several extensions of order list, and returns the new shadows. It is called with the lock
// held.
func (o *Index) setShadows(method string, order []string, of map[string]keys) (fresh []Shadow) {
	owner, at := make(map[string]string), make(map[[2]string]int)
	var all []Shadow
	for _, id := range order {
		for _, key := range slices.Sorted(maps.Keys(of[id])) {
			by, listed := owner[key]
			if !listed {
				owner[key] = id
				continue
			}
			pair := [2]string{id, by}
			if _, known := at[pair]; !known {
				at[pair] = len(all)
				all = append(all, Shadow{Method: method, Extension: id, By: by, Example: key})
			}
			all[at[pair]].Count++
		}
	}
	if o.shadows == nil {
		o.shadows = make(map[string][]Shadow)
	}
	for _, s := range all {
		if !slices.Contains(o.shadows[method], s) {
			fresh = append(fresh, s)
		}
	}
	o.shadows[method] = all
	return fresh
}

// Shadows returns what several extensions list, of the lists that clients have requested.
func (o *Index) Shadows() (list []Shadow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, method := range slices.Sorted(maps.Keys(o.shadows)) {
		list = append(list, o.shadows[method]...)
	}
	return list
}

// SetRefusal records the denial of a list when everything was listed for caller.
func (o *Index) SetRefusal(caller string, refused error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.caller, o.refused = caller, refused
}

// Refusal returns the denial when everything was last listed for caller, nil if there was none.
func (o *Index) Refusal(caller string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.caller != caller {
		return nil
	}
	return o.refused
}

var expression = regexp.MustCompile(`\{[^{}]*\}`)

// templatePattern matches the URIs that a template (RFC 6570) may expand to, and some more.
func templatePattern(text string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString("^")
	last := 0
	for _, at := range expression.FindAllStringIndex(text, -1) {
		b.WriteString(regexp.QuoteMeta(text[last:at[0]]))
		any := "[^/?#]*"
		if strings.ContainsAny(text[at[0]:at[1]], "+#/?&*;.") {
			any = ".*"
		}
		b.WriteString(any)
		last = at[1]
	}
	b.WriteString(regexp.QuoteMeta(text[last:]) + "$")
	return regexp.MustCompile(b.String())
}

// Find returns the extension that lists a resource by its URI or the text of its template, or a prompt by its
// registered name, and the extension's own name for it; "" if none lists it, or view hides it. If several list a
// resource, Find returns the first of these that view shows.
func (o *Index) Find(kind, name string, view *toolset.View) (extension, own string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if kind == "prompt" {
		if p := o.prompts[name]; view.Shows(p.extension, p.name) {
			return p.extension, p.name
		}
		return "", ""
	}
	first := func(lists func(id string) bool) string {
		for _, id := range o.order {
			if lists(id) && view.Resource(id, name) {
				return id
			}
		}
		return ""
	}
	if id := first(func(id string) bool { return o.resources[id].has(name) }); id != "" {
		return id, name
	}
	skills := o.families[protocol.MethodSkillsList]
	if id := skills.find(name, name, view); id != "" {
		return id, name
	}
	inSkill := skills.holder(name, view)
	if inSkill != "" && strings.HasPrefix(name, "skill://") {
		return inSkill, name
	}
	// before skills: the directory of a skill must not take a whole scheme from others
	if id := first(func(id string) bool {
		return slices.ContainsFunc(o.templates[id],
			func(t template) bool { return t.text == name || t.pattern.MatchString(name) })
	}); id != "" {
		return id, name
	}
	return inSkill, name
}

// MayList reports whether everything may be listed again to find an owner: at most once a second.
func (o *Index) MayList() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.listed) < time.Second {
		return false
	}
	o.listed = time.Now()
	return true
}
