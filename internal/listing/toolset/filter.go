package toolset

import (
	"encoding/json"
	"strings"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// members are where the results of lists have their items.
var members = map[string]string{
	protocol.MethodToolsList: "tools", protocol.MethodPromptsList: "prompts", protocol.MethodResourcesList: "resources",
	protocol.MethodResourceTemplates: "resourceTemplates", protocol.MethodDirectoryRead: "resources",
}

// listMembers are the members that the results of all lists may have.
var listMembers = map[string]bool{
	"_meta":      true,
	"nextCursor": true,
	"resultType": true,
	"ttlMs":      true,
	"cacheScope": true,
}

// listed returns the member that has the items of the list that method asks for, "" for another
// method.
func listed(method string) string {
	if isOwnedList(method) {
		member, _, _ := strings.Cut(method, "/")
		return member
	}
	return members[method]
}

// Hides reports whether the toolset may hide items of a list of an extension. The cursors of such
// a list are not for clients: that of many servers is the last item of a page.
func (v *View) Hides(extension, method string) bool {
	return v != nil && listed(method) != "" && !v.whole(extension)
}

// Join returns the first page of a list with the items of the others, and without a cursor.
func Join(method string, pages []json.RawMessage) json.RawMessage {
	member, edits := listed(method), map[string]json.RawMessage{"nextCursor": nil}
	if len(pages) > 1 {
		var all, items []json.RawMessage
		for _, page := range pages {
			_ = json.Unmarshal(rawjson.Get(page, member), &items) // of a page that was filtered
			all = append(all, items...)
		}
		edits[member], edits["ttlMs"] = rawjson.AppendList(nil, all), nil // a later page may last less long
	}
	return rawjson.Edit(pages[0], edits)
}

// Filter takes what the toolset does not show out of the result of a list of an extension, in
// which things have the extension's own names. Results of other methods stay as they are. An
// extension may let everybody cache its list: what is left of it is for clients of the toolset.
func (v *View) Filter(extension, method string, result json.RawMessage) json.RawMessage {
	member := listed(method)
	if v == nil || member == "" {
		return result
	}
	var shown, all []json.RawMessage
	_ = json.Unmarshal(rawjson.Get(result, member), &all) // what is no list shows nothing
	for _, item := range all {
		if v.ShowsItem(extension, method, item) {
			shown = append(shown, v.described(extension, method, item))
		}
	}
	edits := map[string]json.RawMessage{member: rawjson.AppendList(nil, shown)}
	// what an extension of MCP has beside its items may be anything
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

// ShowsItem reports whether the toolset shows an item of a list of an extension.
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
	case protocol.MethodToolsList, protocol.MethodPromptsList:
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

// Servers returns those of the extensions that the toolset reaches.
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
