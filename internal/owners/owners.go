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
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Index maps resources, templates, prompts and items to the extension that lists them. It is
// filled from the lists that callers ask for. Its zero value is empty. Its methods may be
// called by many goroutines at once.
type Index struct {
	mu        sync.Mutex
	listed    time.Time // when everything was last listed to find an owner
	resources map[string]string
	templates []template
	prompts   map[string]prompt // by registered name
	families  map[string]items  // of extensions of MCP, by the method that lists them
	refused   error             // a denial of a list when everything was last listed; nil when there was none
	caller    string            // for whom that was
}

type template struct {
	extension, text string
	pattern         *regexp.Regexp
}

type prompt struct{ extension, name string }

// List is one kind of thing that extensions list.
type List struct {
	Method string // that lists them
	Key    string // the member of an item that names it; "" for an extension of MCP
}

// Update takes the items of one kind that each extension of order lists, and returns those
// that are shown. What is known of the extensions of kept, whose lists were denied to this
// caller, stays.
func (o *Index) Update(l List, order []string, each [][]json.RawMessage, kept []string) (shown []json.RawMessage) {
	if l.Key == "" {
		return o.updateFamily(l.Method, order, each, kept)
	}
	resources, prompts, templates := make(map[string]string), make(map[string]prompt), []template(nil)
	for n, id := range order {
		for _, item := range each[n] {
			key, _ := rawjson.Text(rawjson.Get(item, l.Key))
			switch l.Key {
			case "uri":
				if resources[key] != "" {
					continue
				}
				resources[key] = id
			case "uriTemplate":
				templates = append(templates, template{id, key, templatePattern(key)})
			case "name":
				name, _, ok := tools.Register(id, key, func(name string) bool { return prompts[name].extension != "" })
				if !ok {
					continue
				}
				prompts[name] = prompt{id, key}
				item = rawjson.Set(item, "name", rawjson.Quote(name))
			}
			shown = append(shown, item)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch l.Key {
	case "uri":
		for uri, id := range o.resources {
			if slices.Contains(kept, id) && resources[uri] == "" {
				resources[uri] = id
			}
		}
		o.resources = resources
	case "uriTemplate":
		for _, t := range o.templates {
			if slices.Contains(kept, t.extension) {
				templates = append(templates, t)
			}
		}
		o.templates = templates
	case "name":
		for name, p := range o.prompts {
			if slices.Contains(kept, p.extension) && prompts[name] == (prompt{}) {
				prompts[name] = p
			}
		}
		o.prompts = prompts
	}
	return shown
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
// extension does.
func (o *Index) Find(kind, name string) (extension, own string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if kind == "prompt" {
		p := o.prompts[name]
		return p.extension, p.name
	}
	if id := o.resources[name]; id != "" {
		return id, name
	}
	skills := o.families[protocol.MethodSkillsList]
	if id := skills.owner[name]; id != "" {
		return id, name
	}
	inSkill := skills.holder(name)
	if inSkill != "" && strings.HasPrefix(name, "skill://") {
		return inSkill, name
	}
	for _, t := range o.templates { // before skills: the directory of one must not take a scheme from others
		if t.text == name || t.pattern.MatchString(name) {
			return t.extension, name
		}
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
