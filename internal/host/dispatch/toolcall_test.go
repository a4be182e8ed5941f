package dispatch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/exthost/exthost/protocol"
)

func TestNamesOfToolsAreBounded(t *testing.T) {
	for size, want := range map[int]protocol.Kind{maxToolName: "", maxToolName + 1: protocol.ToolNotFound} {
		_, err := readToolCall(fmt.Appendf(nil, `{"name":%q,"arguments":{}}`, strings.Repeat("x", size)))
		if protocol.KindOf(err) != want || err != nil && len(err.Error()) > 100 {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
