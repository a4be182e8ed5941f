package tools

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// AppsOnly reports whether the tool is only for pages of an MCP App, and of no use to models and clients without
// such pages (MCP Apps, SEP-1865, "Visibility").
func (e *Entry) AppsOnly() bool { return e.appsOnly }

func isAppsOnly(descriptor json.RawMessage) bool {
	if !bytes.Contains(descriptor, []byte("visibility")) {
		return false
	}
	var seenBy []string
	visibility := rawjson.Get(rawjson.Get(rawjson.Get(descriptor, "_meta"), "ui"), "visibility")
	return json.Unmarshal(visibility, &seenBy) == nil && len(seenBy) > 0 && !slices.Contains(seenBy, "model")
}
