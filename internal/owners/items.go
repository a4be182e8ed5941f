package owners

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// items are what the servers of one extension of MCP list.
type items struct {
	owner  map[string]string // by key
	hidden []string          // keys that a second extension lists too
	told   []string          // of hidden, when they were last reported
}

// maxLearned bounds the items that are known of an only owner.
const maxLearned = 4096

// skillFile is the file that names a skill. The directory that holds it is the skill.
const skillFile = "/SKILL.md"

// holder returns the extension that has the skill of that file or directory; "" for none. The
// root of a scheme, such as https://, is no skill: all URIs of the scheme would be its files.
func (i items) holder(uri string) string {
	if id := i.owner[uri]; id != "" {
		return id
	}
	for uri != "" && !strings.HasSuffix(uri, ":") && !strings.HasSuffix(uri, ":/") && !strings.HasSuffix(uri, "://") {
		if id := i.owner[uri+skillFile]; id != "" {
			return id
		}
		uri = uri[:max(strings.LastIndexByte(uri, '/'), 0)]
	}
	return ""
}

// updateFamily is [Index.Update] for the items of an extension of MCP.
func (o *Index) updateFamily(method string, order []string, each [][]json.RawMessage, kept []string) (shown []json.RawMessage) {
	next := items{owner: make(map[string]string)}
	for n, id := range order {
		for _, item := range each[n] {
			key := ItemKey(item)
			if key != "" && next.owner[key] != "" {
				if next.owner[key] != id {
					next.hidden = append(next.hidden, key)
				}
				continue
			}
			next.owner[key] = id
			shown = append(shown, item)
		}
	}
	delete(next.owner, "")
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.families[method]
	next.told = before.told
	for key, id := range before.owner {
		if slices.Contains(kept, id) && next.owner[key] == "" {
			next.owner[key] = id
		}
	}
	o.setFamily(method, next)
	return shown
}

// setFamily is called with the lock held. Only methods of declared extensions of MCP are
// kept, so that their number is bounded.
func (o *Index) setFamily(method string, to items) {
	if o.families == nil {
		o.families = make(map[string]items)
	}
	o.families[method] = to
}

// Learn adds the items of a page of the only owner.
func (o *Index) Learn(method, extension string, page json.RawMessage) {
	var list []json.RawMessage
	if method != protocol.MethodSkillsList || json.Unmarshal(page, &list) != nil {
		return // other items are found without
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.families[method]
	if known.owner == nil {
		known.owner = make(map[string]string)
		o.setFamily(method, known)
	}
	for _, item := range list {
		if key := ItemKey(item); key != "" && len(known.owner) < maxLearned {
			known.owner[key] = extension
		}
	}
}

// FindItem returns the extension that lists an item, "" for none.
func (o *Index) FindItem(method, key string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if method == protocol.MethodSkillsList {
		return o.families[method].holder(key)
	}
	return o.families[method].owner[key]
}

// NewlyHidden returns the items that two extensions list, unless they are those that it
// returned last.
func (o *Index) NewlyHidden(method string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.families[method]
	if slices.Equal(now.hidden, now.told) {
		return nil
	}
	now.told = now.hidden
	o.setFamily(method, now)
	return now.hidden
}

// ItemKey returns what names an item of a list, or the item that params are about; "" for
// none.
func ItemKey(of json.RawMessage) string {
	for _, member := range []string{"uri", "name", "id"} {
		if key, ok := rawjson.Text(rawjson.Get(of, member)); ok && key != "" {
			return key
		}
	}
	return ""
}
