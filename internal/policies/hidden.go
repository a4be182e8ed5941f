package policies

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/internal/display"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/protocol"
)

// CodeHiddenText is the code of the diagnostic about tools that are held for text that no
// reader sees.
const CodeHiddenText = "hidden_text_held"

// HoldsHidden returns the error for a request about something that is held for its hidden text,
// nil for all others. params state the extension's own names.
func (set *Set) HoldsHidden(extension, method string, params json.RawMessage) error {
	if !set.hidden.Any() {
		return nil
	}
	kind, name := builtin.PinSubject(method, params)
	if kind == "" || !set.hidden.Held(extension, kind, name) {
		return nil
	}
	return protocol.Errorf(protocol.DescriptorChanged, "the %s %s of %s is held: its descriptor has text that no reader sees; exthost info %s shows where, %s lets it pass",
		kind, display.Visible(name), extension, extension, pins.AcceptCommand(extension, kind, name))
}

// hides returns the names of the tools of u that are held for their hidden text. No policy is
// needed for that: nobody can have meant to approve it.
func (set *Set) hides(u *unit.Unit, offered []protocol.Tool) (names []string) {
	for _, t := range offered {
		if ok, _ := set.hidden.Check(u.ID(), pins.Tool, t.Name, t.Raw); !ok {
			names = append(names, t.Name)
		}
	}
	set.hidden.Keep(u.ID(), names)
	return names
}

// hiddenText reports what of u is held for its hidden text, and what is listed with some.
func (set *Set) hiddenText(u *unit.Unit, held []pins.Pin) (diags []protocol.Diagnostic) {
	d := protocol.Diagnostic{Level: protocol.LevelWarn, Code: CodeHiddenText, Extension: u.ID(), Path: u.Candidate.Path}
	if len(held) > 0 {
		for i := range held {
			held[i].New = false
		}
		d.Message = "held back for text that no reader sees (tag characters): " + pins.Names(held)
		d.Hint = fmt.Sprintf("ask its author; exthost tools accept %s lets them pass as they are", u.ID())
		diags = append(diags, d)
	}
	if noted := set.hidden.Noted(u.ID()); len(noted) > 0 {
		d.Code, d.Hint = "hidden_text", "a model reads them; ask the author why they are there"
		d.Message = "listed with characters that a reader does not see: " + strings.Join(noted[:min(len(noted), maxHiddenNamed)], ", ")
		if more := len(noted) - maxHiddenNamed; more > 0 {
			d.Message += fmt.Sprintf(", and %d more", more)
		}
		diags = append(diags, d)
	}
	return diags
}

// maxHiddenNamed is how many items with hidden text a diagnostic names.
const maxHiddenNamed = 8
