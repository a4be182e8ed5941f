package tools

import (
	"encoding/json"
	"strconv"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// RiskOf returns the risk that the annotations of a tool state: destroy with a destructiveHint other than false, read
// with readOnlyHint true and nothing to the contrary, else write, also without annotations. The other hints say nothing
// about the most that a call can do. MCP takes a tool without a destructiveHint for destructive; most servers state
// none, so that a class of these would hold nearly every tool, and tell nothing.
func RiskOf(annotations json.RawMessage) protocol.Risk {
	reads, changes := false, false
	for hint, value := range rawjson.Members(annotations) { // of a hint that is there twice, the worse counts
		switch text := string(value); {
		case hint == "destructiveHint" && text != "false" && text != "null":
			return protocol.RiskDestroy
		case hint == "readOnlyHint":
			reads, changes = reads || text == "true", changes || text != "true"
		}
	}
	if reads && !changes {
		return protocol.RiskRead
	}
	return protocol.RiskWrite
}

// annotate returns annotations with hints that state risk.
func annotate(annotations json.RawMessage, risk protocol.Risk) json.RawMessage {
	if !isObject(annotations) {
		annotations = json.RawMessage(`{}`)
	}
	return rawjson.Edit(annotations, map[string]json.RawMessage{
		"readOnlyHint":    strconv.AppendBool(nil, risk == protocol.RiskRead),
		"destructiveHint": strconv.AppendBool(nil, risk == protocol.RiskDestroy),
	})
}
