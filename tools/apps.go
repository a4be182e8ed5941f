package tools

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// AppsOnly reports whether the tool is for the pages of an MCP App and not for models: a
// client that shows no such pages has no use for it (MCP Apps, SEP-1865, "Visibility").
func (e *Entry) AppsOnly() bool { return e.appsOnly }

func isAppsOnly(descriptor json.RawMessage) bool {
	if !bytes.Contains(descriptor, []byte("visibility")) {
		return false
	}
	var seenBy []string
	visibility := rawjson.Get(rawjson.Get(rawjson.Get(descriptor, "_meta"), "ui"), "visibility")
	return json.Unmarshal(visibility, &seenBy) == nil && len(seenBy) > 0 && !slices.Contains(seenBy, "model")
}
