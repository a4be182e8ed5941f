package builtin_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/protocol"
)

// A call of an item beyond MaxItems is denied, with the limit and the next step.
func TestCallsBeyondThePins(t *testing.T) {
	policy, err := builtin.New(governance.Spec{Name: "pin", Builtin: "pin", Category: governance.Authorization})
	if err != nil {
		t.Fatal(err)
	}
	p := policy.(*builtin.Pin)
	if err := p.Open(filepath.Join(t.TempDir(), "pins")); err != nil {
		t.Fatal(err)
	}
	list := pins.List{Extension: "x", Kind: pins.Prompt}
	for n := range pins.MaxItems + 1 {
		list.Items = append(list.Items, pins.NewListed(pins.Prompt, json.RawMessage(fmt.Sprintf(`{"name":"p%d"}`, n))))
	}
	p.Pins().Look(list)
	get := func(name string) string {
		return ask(t, p, governance.Request,
			governance.Exchange{
				Method:    protocol.MethodPromptsGet,
				Extension: "x",
				ToChild:   true,
				Request:   json.RawMessage(`{"name":"` + name + `"}`),
			})
	}
	if got := get("p0"); got != "allow" {
		t.Errorf("the first: %s", got)
	}
	got := get(fmt.Sprint("p", pins.MaxItems))
	bound := fmt.Sprint(pins.MaxItems, " items of kind prompt")
	if !strings.Contains(got, bound) || !strings.Contains(got, "leave prompt out") {
		t.Errorf("the last: %s", got)
	}
}
