package tools

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// PageScheme begins the URIs of pages of MCP Apps (SEP-1865).
const PageScheme = "ui://"

// appUse is what a descriptor states about pages of MCP Apps (SEP-1865, _meta.ui).
type appUse struct {
	page     string // URI of the page that shows the tool's results; "" without one
	stated   bool   // the descriptor has _meta.ui
	notModel bool   // the tool is not for models
	notPages bool   // pages must not call the tool
}

// AppsOnly reports whether the tool is only for pages of an MCP App, and of no use to models and clients without
// such pages (MCP Apps, SEP-1865, "Visibility").
func (e *Entry) AppsOnly() bool { return e.app.notModel }

// Page returns the URI of the page of an MCP App that shows the results of the tool; "" without one.
func (e *Entry) Page() string { return e.app.page }

// ForPages reports whether pages of the tool's own server may call the tool, as they may by default. stated is true if
// the descriptor says that the tool has to do with pages.
func (e *Entry) ForPages() (may, stated bool) { return !e.app.notPages, e.app.stated }

func readAppUse(descriptor json.RawMessage) (u appUse) {
	if !bytes.Contains(descriptor, []byte(`"ui`)) {
		return u
	}
	meta := rawjson.Get(descriptor, "_meta")
	u.page = PageOf(meta)
	ui := rawjson.Get(meta, "ui")
	if u.stated = u.page != "" || rawjson.IsObject(ui); !rawjson.IsObject(ui) {
		return u
	}
	visibility := rawjson.Get(ui, "visibility")
	if visibility == nil || string(visibility) == "null" {
		return u
	}
	var seenBy []string
	valid := json.Unmarshal(visibility, &seenBy) == nil
	u.notModel = valid && len(seenBy) > 0 && !slices.Contains(seenBy, "model")
	u.notPages = !valid || !slices.Contains(seenBy, "app")
	return u
}

// PageOf returns the page of an MCP App that the _meta of a descriptor or a request names: ui.resourceUri or, in its
// older spelling, ui/resourceUri. It is "" if _meta names none.
func PageOf(meta json.RawMessage) string {
	uri, _ := rawjson.Text(rawjson.Get(rawjson.Get(meta, "ui"), "resourceUri"))
	if uri == "" {
		uri, _ = rawjson.Text(rawjson.Get(meta, "ui/resourceUri"))
	}
	if !strings.HasPrefix(uri, PageScheme) {
		return ""
	}
	return uri
}
