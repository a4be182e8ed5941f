package check

import (
	"encoding/json"
	"testing"
)

// Names of tools with any characters are valid JSON in params: Go's quoting differs for some.
func TestParamsAreValidJSON(t *testing.T) {
	for _, name := range []string{"a", "a\"b", "\x7f", "\a", "\u00ad", "\U000e0041"} {
		c := &fixtureCall{Tool: name, Arguments: json.RawMessage(`{"x":1}`)}
		var params struct {
			Name      string
			Arguments map[string]int
		}
		if err := json.Unmarshal(c.params(), &params); err != nil || params.Name != name || params.Arguments["x"] != 1 {
			t.Errorf("%q: %v, %s", name, err, c.params())
		}
	}
}
