package toolset

import (
	"encoding/json"
	"strings"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// members maps list methods to the member of the result with the items.
var members = map[string]string{
	protocol.MethodToolsList: "tools", protocol.MethodPromptsList: "prompts", protocol.MethodResourcesList: "resources",
	protocol.MethodResourceTemplates: "resourceTemplates", protocol.MethodDirectoryRead: "resources",
}

// listMembers are the members that any list result may have.
var listMembers = map[string]bool{
	"_meta":      true,
	"nextCursor": true,
	"resultType": true,
	"ttlMs":      true,
	"cacheScope": true,
}

// listed returns the member with the items of a list method, "" for another method.
func listed(method string) string {
	if isOwnedList(method) {
		member, _, _ := strings.Cut(method, "/")
		return member
	}
	return members[method]
}

// Hides reports whether the toolset may hide items of an extension's list. Cursors of such a list must not reach
// clients: many servers use the last item of a page.
func (v *View) Hides(extension, method string) bool {
	return v != nil && listed(method) != "" && !v.whole(extension)
}

// Join returns the first page of a list with the items of all pages, without a cursor.
func Join(method string, pages []json.RawMessage) json.RawMessage {
	member, edits := listed(method), map[string]json.RawMessage{"nextCursor": nil}
	if len(pages) > 1 {
		var all []json.RawMessage
		for _, page := range pages {
			var items []json.RawMessage                           // new: Unmarshal would write over the items before
			_ = json.Unmarshal(rawjson.Get(page, member), &items) // pages were filtered, so they are valid
			all = append(all, items...)
		}
		edits[member], edits["ttlMs"] = rawjson.AppendList(nil, all), nil // a later page may be cacheable for less time
	}
	return rawjson.Edit(pages[0], edits)
}

// Filter removes the items that the toolset hides from the result of an extension's list, in which items have the
// extension's own names. Results of other methods stay unchanged. A list that may be cached for all clients
// becomes private, because it is filtered for a toolset.
func (v *View) Filter(extension, method string, result json.RawMessage) json.RawMessage {
	member := listed(method)
	if v == nil || member == "" {
		return result
	}
	var shown, all []json.RawMessage
	_ = json.Unmarshal(rawjson.Get(result, member), &all) // anything but a list shows nothing
	for _, item := range all {
		if v.ShowsItem(extension, method, item) {
			shown = append(shown, v.described(extension, method, item))
		}
	}
	edits := map[string]json.RawMessage{member: rawjson.AppendList(nil, shown)}
	// in other members, an extension of MCP may return anything
	unknown := isOwnedList(method) && !v.whole(extension)
	for key := range rawjson.Members(result) {
		// some clients ignore case
		if strings.EqualFold(key, member) && key != member || unknown && key != member && !listMembers[key] {
			edits[key] = nil
		}
	}
	if rawjson.Get(result, "cacheScope") != nil {
		edits["cacheScope"] = json.RawMessage(`"private"`)
	}
	return rawjson.Edit(result, edits)
}

// ShowsItem reports whether the toolset shows an item of an extension's list.
func (v *View) ShowsItem(extension, method string, item json.RawMessage) bool {
	if v == nil {
		return true
	}
	text := func(key string) (string, bool) {
		value, err := one(method, item, key)
		if err != nil {
			return "", false
		}
		return rawjson.Text(value)
	}
	switch method {
	case protocol.MethodToolsList:
		name, ok := text("name")
		return ok && v.ShowsTool(extension, name)
	case protocol.MethodPromptsList:
		name, ok := text("name")
		return ok && v.Shows(extension, name)
	case protocol.MethodResourceTemplates:
		uri, ok := text("uriTemplate")
		return ok && v.Resource(extension, uri)
	case protocol.MethodResourcesList, protocol.MethodDirectoryRead:
		uri, ok := text("uri")
		return ok && v.Resource(extension, uri)
	}
	uri, ok := text("uri")
	return v.whole(extension) || ok && v.Resource(extension, uri)
}

// described returns a tool with the description that the toolset states.
func (v *View) described(extension, method string, item json.RawMessage) json.RawMessage {
	if method != protocol.MethodToolsList || len(v.describe) == 0 {
		return item
	}
	name, _ := rawjson.Text(rawjson.Get(item, "name"))
	if text := v.describe[tools.NameOf(extension, name)]; text != "" {
		return rawjson.Set(item, "description", rawjson.Quote(display.Visible(text)))
	}
	return item
}

// Servers returns the extensions that the toolset reaches.
func (v *View) Servers(extensions []string) (reached []string) {
	if v == nil {
		return extensions
	}
	for _, id := range extensions {
		if v.reached[id] {
			reached = append(reached, id)
		}
	}
	return reached
}
