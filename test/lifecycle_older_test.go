package test

import (
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// endsAtDiscover is an MCP server in sh that ends when the first request is not initialize. It adds a line to the file
// begun when it starts.
const endsAtDiscover = `#!/bin/sh
echo x >> "$EXTHOST_STATE_DIR/begun"
while read -r line; do
	case $line in
	*'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}' ;;
	*'"tools/list"'*) result='{"tools":[{"name":"greet","inputSchema":{"type":"object"}}]}' ;;
	*'"tools/call"'*) result='{"content":[{"type":"text","text":"hello"}]}' ;;
	*'"id"'*) exit 1 ;;
	*) continue ;;
	esac
	echo "{\"jsonrpc\":\"2.0\",\"id\":$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/'),\"result\":$result}"
done
`

// TestServerThatEndsAtDiscoverIsKnown has the first host start such a server twice, as one start, and the second host
// start it once, because the stored descriptors say how.
func TestServerThatEndsAtDiscoverIsKnown(t *testing.T) {
	processtest.Leaks(t)
	f, state := hosttest.NewFolder(t), t.TempDir()
	f.Add("x", "[transport]\nscript = \"x.sh\"\nprotocol = \"mcp\"\n")
	f.Write("x/x.sh", endsAtDiscover)
	for _, want := range []int{2, 3} {
		h := f.Open(exthost.Options{StateDir: state})
		if _, err := h.Call(hosttest.Deadline(t), "ext_x_greet", nil); err != nil {
			t.Error(err)
		}
		s := hosttest.StatusOf(t, h, "x")
		if n := begun(t, state); n != want || s.Restarts != 0 || s.Reason != "" {
			t.Errorf("started %d times, want %d: %+v", n, want, s)
		}
		h.Close()
	}
}
