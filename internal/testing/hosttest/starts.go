package hosttest

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/protocol"
)

// Scripted is a native extension in sh. It adds a line to the file begun when it starts, offers the tools in tools.json
// beside it, and answers every call.
const Scripted = `#!/bin/sh
echo x >> "$EXTHOST_STATE_DIR/begun"
while read -r line; do
	case $line in
	*'"initialize"'* | *'"tools/list"'*) result="{\"tools\":$(cat tools.json)}" ;;
	*) result='{"content":[{"type":"text","text":"hello"}]}' ;;
	esac
	echo "{\"jsonrpc\":\"2.0\",\"id\":$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/'),\"result\":$result}"
	case $line in *announce*) echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}' ;; esac
done
`

const TwoTools = `[{"name":"greet","description":"Greets <all>.","input_schema":{"type":"object"}}, ` +
	`{"name":"part","input_schema":{"type":"object"}}]`

const OffersTwo = "[capabilities]\ntools = [\"greet\", \"part\"]\n"

var Background = exthost.Mode{Background: true}

// Listed requests the list of tools as a client does, and returns the sorted names.
func Listed(t *testing.T, h *exthost.Host) (list []string) {
	t.Helper()
	raw, err := h.Do(Deadline(t), &protocol.Call{Method: protocol.MethodToolsList})
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatal(err)
	}
	for _, tool := range answer.Tools {
		list = append(list, tool.Name)
	}
	slices.Sort(list)
	return list
}
