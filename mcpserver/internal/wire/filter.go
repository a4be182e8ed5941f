package wire

import (
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Changes are the server capabilities about change notifications.
type Changes struct {
	Tools     Change `json:"tools"`
	Prompts   Change `json:"prompts"`
	Resources Change `json:"resources"`
}

// Change holds the capabilities of one list.
type Change struct {
	ListChanged bool `json:"listChanged"`
	Subscribe   bool `json:"subscribe"` // Resources only
}

// Filter selects the notifications of a subscription. The client requests a filter in subscriptions/listen, and the
// acknowledgement returns the part of it that was granted.
type Filter struct {
	Tools     bool `json:"toolsListChanged,omitempty"`
	Prompts   bool `json:"promptsListChanged,omitempty"`
	Resources bool `json:"resourcesListChanged,omitempty"`

	// URIs are resources. The backend knows who follows a resource; the filter holds back updates that the client of
	// this stream has not asked for, whatever the backend sends.
	URIs []string `json:"resourceSubscriptions,omitempty"`
}

// MaxResources is the max number of resources in one subscription.
const MaxResources = 256

// Matches reports whether the subscription gets a notification.
func (f *Filter) Matches(method string, params json.RawMessage) bool {
	switch method {
	case protocol.MethodResourceUpdated:
		uri, _ := rawjson.Text(rawjson.Get(params, "uri"))
		return slices.Contains(f.URIs, uri)
	case protocol.MethodToolsListChanged:
		return f.Tools
	case protocol.MethodPromptsListChanged:
		return f.Prompts
	case protocol.MethodResourcesListChanged:
		return f.Resources
	}
	return false
}

// WithSubscriptionID returns params with the subscription's id in their _meta.
func WithSubscriptionID(params, id json.RawMessage) json.RawMessage {
	meta := rawjson.Set(rawjson.Get(params, "_meta"), protocol.MetaSubscriptionID, id)
	return rawjson.Set(params, "_meta", meta)
}
