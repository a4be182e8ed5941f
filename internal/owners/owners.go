// Package owners knows which extension lists a resource, a prompt or an item of an extension of
// MCP. It calls none.
package owners

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/internal/toolset"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Index maps resources, templates, prompts and items to the extension that lists them. It is
// filled from the lists that callers ask for. Its zero value is empty. Its methods may be
// called by many goroutines at once.
type Index struct {
	mu        sync.Mutex
	listed    time.Time // when everything was last listed to find an owner
	order     []string  // the extensions that list resources; of two that list the same, the first counts
	resources map[string]keys
	templates map[string][]template // by extension, as resources
	prompts   map[string]prompt     // by registered name
	families  map[string]items      // of extensions of MCP, by the method that lists them
	refused   error                 // a denial of a list when everything was last listed; nil when there was none
	caller    string                // for whom that was
}

// keys are what names the things that one extension lists.
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

// List is one kind of thing that extensions list.
type List struct {
	Method string // that lists them
	Key    string // the member of an item that names it; "" for an extension of MCP
}

// Update takes the items of one kind that each extension of order lists, and returns those
// that the toolset of the caller shows, under its names. What is known of the extensions of
// kept, which did not list for this caller, stays.
func (o *Index) Update(l List, order []string, each [][]json.RawMessage, kept []string, view *toolset.View) (shown []json.RawMessage) {
	if l.Key == "" {
		return o.updateFamily(l.Method, order, each, kept, view)
	}
	seen, prompts := make(keys), map[string]prompt(nil)
	if l.Key == "name" {
		prompts = o.promptsOf(kept) // which keep their names
	}
	of, templates := make(map[string]keys, len(order)), make(map[string][]template)
	for n, id := range order {
		of[id] = make(keys, len(each[n]))
		for _, item := range each[n] {
			key, _ := rawjson.Text(rawjson.Get(item, l.Key))
			visible := view.ShowsItem(id, l.Method, item)
			switch l.Key {
			case "uri":
				if of[id][key] = struct{}{}; !visible || seen.has(key) {
					continue
				}
				seen[key] = struct{}{}
			case "uriTemplate":
				templates[id] = append(templates[id], template{key, templatePattern(key)})
			case "name":
				name, _, ok := tools.Register(id, key, func(name string) bool { return prompts[name].extension != "" })
				if !ok {
					continue
				}
				prompts[name] = prompt{id, key}
				item = rawjson.Set(item, "name", rawjson.Quote(view.Rename(name)))
			}
			if visible {
				shown = append(shown, item)
			}
		}
	}
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
		}
		o.order, o.templates = order, templates
	case "name":
		o.prompts = prompts
	}
	return shown
}

// promptsOf returns the prompts of extensions that are known.
func (o *Index) promptsOf(extensions []string) map[string]prompt {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := make(map[string]prompt)
	for name, p := range o.prompts {
		if slices.Contains(extensions, p.extension) {
			known[name] = p
		}
	}
	return known
}

// SetRefusal keeps the denial of a list, met when everything was listed for caller.
func (o *Index) SetRefusal(caller string, refused error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.caller, o.refused = caller, refused
}

// Refusal returns the denial that caller met when everything was last listed, nil when there
// was none.
func (o *Index) Refusal(caller string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.caller != caller {
		return nil
	}
	return o.refused
}

var expression = regexp.MustCompile(`\{[^{}]*\}`)

// templatePattern matches the URIs that a template (RFC 6570) may expand to, roughly: it
// matches some URIs that the template cannot expand to.
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

// Find returns the extension that lists a resource by its URI or the text of its template,
// or a prompt by its registered name, and the extension's own name for it; "" when no
// extension does, or view hides it. Of a resource that several list, the first that view shows it of
// counts.
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
	// Before skills: the directory of one must not take a scheme from others.
	if id := first(func(id string) bool {
		return slices.ContainsFunc(o.templates[id], func(t template) bool { return t.text == name || t.pattern.MatchString(name) })
	}); id != "" {
		return id, name
	}
	return inSkill, name
}

// MayList reports whether everything may be listed again to find an owner: at most once a
// second, however often clients ask.
func (o *Index) MayList() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.listed) < time.Second {
		return false
	}
	o.listed = time.Now()
	return true
}
