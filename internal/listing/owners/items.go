package owners

import (
	"encoding/json"
	"strings"

	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// items are the items of one list, by server.
type items struct {
	order []string // servers; the first owns an item that several list. See Order
	of    map[string]keys
}

// maxLearned bounds the known items of a server that is the only one to list a kind of items.
const maxLearned = 4096

// skillFile names a skill by the directory that holds it.
const skillFile = "/SKILL.md"

// find returns the first server that lists key and whose uri view shows, "" if none.
func (i items) find(key, uri string, view *toolset.View) string {
	for _, id := range i.order {
		if i.of[id].has(key) && view.Resource(id, uri) {
			return id
		}
	}
	return ""
}

// holder returns the extension whose skill contains a file or directory, "" if none. The root of a scheme, such
// as https://, is no skill: it would own all URIs of the scheme.
func (i items) holder(uri string, view *toolset.View) string {
	if id := i.find(uri, uri, view); id != "" {
		return id
	}
	for at := uri; at != "" && !strings.HasSuffix(at, ":") && !strings.HasSuffix(at, ":/") &&
		!strings.HasSuffix(at, "://"); {
		if id := i.find(at+skillFile, uri, view); id != "" {
			return id
		}
		at = at[:max(strings.LastIndexByte(at, '/'), 0)]
	}
	return ""
}

// updateFamily is [Index.Update] for items of an extension of MCP.
func (o *Index) updateFamily(method string, order []string, each [][]json.RawMessage, kept []string, view *toolset.View,
) (shown []json.RawMessage, shadowed []Shadow) {
	next := items{order: order, of: make(map[string]keys, len(order))}
	seen := make(keys)
	for n, id := range order {
		next.of[id] = make(keys, len(each[n]))
		for _, item := range each[n] {
			key := ItemKey(item)
			if key != "" && next.of[id].has(key) {
				continue // listed twice
			}
			if key != "" {
				next.of[id][key] = struct{}{}
			}
			if view.ShowsItem(id, method, item) && (key == "" || !seen.has(key)) {
				seen[key] = struct{}{}
				shown = append(shown, item)
			}
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range kept {
		next.of[id] = o.families[method].of[id]
	}
	o.setFamily(method, next)
	return shown, o.setShadows(method, order, next.of)
}

// setFamily is called with the lock held. Only methods of declared extensions of MCP are kept, which bounds their
// number.
func (o *Index) setFamily(method string, to items) {
	if o.families == nil {
		o.families = make(map[string]items)
	}
	o.families[method] = to
}

// Learn adds the items of a page of extension, the only one that serves method.
func (o *Index) Learn(method, extension string, page json.RawMessage) {
	var list []json.RawMessage
	if method != protocol.MethodSkillsList || json.Unmarshal(page, &list) != nil {
		return // the owner of other items is found without what was learned
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.families[method].of[extension]
	if known == nil {
		known = make(keys)
	}
	for _, item := range list {
		if key := ItemKey(item); key != "" && len(known) < maxLearned {
			known[key] = struct{}{}
		}
	}
	o.setFamily(method, items{order: []string{extension}, of: map[string]keys{extension: known}})
}

// FindItem returns the extension that lists an item, "" if none. serves reports whether an extension may serve
// the request.
func (o *Index) FindItem(method, key string, view *toolset.View, serves func(extension string) bool) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if method == protocol.MethodSkillsList {
		if id := o.families[method].holder(key, view); serves(id) {
			return id
		}
		return ""
	}
	for _, id := range o.families[method].order {
		if o.families[method].of[id].has(key) && serves(id) {
			return id
		}
	}
	return ""
}

// ItemKey returns the key of an item, or of the item that params are about; "" if there is none.
func ItemKey(of json.RawMessage) string {
	for _, member := range []string{"uri", "name", "id"} {
		if key, ok := rawjson.Text(rawjson.Get(of, member)); ok && key != "" {
			return key
		}
	}
	return ""
}
