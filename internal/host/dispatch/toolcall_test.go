package dispatch

import (
	"fmt"
	"slices"
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

// Callers cannot pass a _meta for the extension among the arguments, however they spell it.
func TestArgumentsLoseTheirMeta(t *testing.T) {
	for arguments, want := range map[string]string{
		``:                                      `{}`,
		`{"_meta":{"agent_id":"forged"}}`:       `{}`,
		`{"_m\u0065ta":1,"n":1.0}`:              `{"n":1.0}`,
		`{"_meta":1, "n":1.0,"\u005fmeta":2}`:   `{"n":1.0}`,
		`{"in":{"_meta":1},"text":"\"_meta\""}`: `{"in":{"_meta":1},"text":"\"_meta\""}`,
		`["_meta"]`:                             `["_meta"]`,
	} {
		c := &toolCall{arguments: []byte(arguments)}
		if c.normalize(); string(c.arguments) != want {
			t.Errorf("%s became %s, want %s", arguments, c.arguments, want)
		}
	}
}

// TestPlainParams checks that only params which the call encoded from a name and arguments alone count as plain:
// those with _meta, and those that a policy or a hook has replaced, must be searched for claims of identity.
func TestPlainParams(t *testing.T) {
	for params, plain := range map[string]bool{
		`{"name":"echo","arguments":{"text":"_meta"}}`: true,
		`{"name":"echo"}`: true,
		`{"name":"echo","arguments":{},"_meta":{"progressToken":1}}`:             false,
		`{"name":"echo","arguments":{},"requestState":"x"}`:                      false,
		`{"name":"echo","arguments":{},"arguments":{},"name":"echo"}`:            false,
		`{"name":"echo","arguments":{},"\u005fmeta":{"progressToken":1}}`:        false,
		`{"name":"echo","arguments":{},"_meta":{"io.modelcontextprotocol/x":1}}`: false,
	} {
		parsed, err := readToolCall([]byte(params))
		if err != nil {
			t.Fatalf("%s: %v", params, err)
		}
		c := &Call{parsed: *parsed}
		c.params = c.parsed.params("echo")
		if got := c.IsPlain(c.params); got != plain {
			t.Errorf("%s is plain: %t", params, got)
		}
		if c.IsPlain(slices.Clone(c.params)) || c.IsPlain(nil) || (&Call{}).IsPlain(nil) {
			t.Errorf("%s: other params are plain", params)
		}
	}
}
