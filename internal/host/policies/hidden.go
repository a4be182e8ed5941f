package policies

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/protocol"
)

// CodeHiddenText is the code of the diagnostic about tools held back for invisible text.
const CodeHiddenText = "hidden_text_held"

// HoldsHidden returns the error for a request about an item held back for hidden text or because it differs from
// exthost.lock; nil for all others. params have the extension's own names.
func (set *Set) HoldsHidden(extension, method string, params json.RawMessage) error {
	if !set.hidden.Any() {
		return nil
	}
	kind, name := builtin.PinSubject(method, params)
	held, unlocked := set.hidden.Held(extension, kind, name)
	for _, uri := range builtin.SkillsAround(method, params) {
		if inside, _ := set.hidden.Held(extension, pins.ListedSkill, uri); inside {
			kind, name, held = pins.ListedSkill, uri, true
		}
	}
	switch {
	case kind == "":
		return nil
	case held:
	case set.hidden.Beyond(extension, kind):
		return protocol.Errorf(protocol.DescriptorChanged,
			"every %s of %s is held: more than %d wait for the operator, and the host remembers no more of them; "+
				"disable or mend the extension, then start the host again", kind, extension, pins.MaxItems)
	default:
		return nil
	}
	reason := "its descriptor has text that no reader sees"
	if unlocked {
		reason = "its descriptor is not the one of exthost.lock"
	}
	return protocol.Errorf(protocol.DescriptorChanged,
		"the %s %s of %s is held: %s; exthost policy pins shows it, %s lets it pass",
		kind, display.Visible(name), extension, reason, pins.AcceptCommand(extension, kind, name))
}

// HoldsSkill returns the error for a request about a skill in the folder of an extension that a policy holds back, or
// that is held for hidden text; nil for all others.
func (set *Set) HoldsSkill(extension, uri string) error {
	reason := ""
	if held, _ := set.hidden.Held(extension, pins.Skill, uri); held || set.hidden.Beyond(extension, pins.Skill) {
		reason = "it has text that no reader sees"
	}
	for _, p := range set.pinning {
		if !p.shadow && p.Guards(extension, pins.Skill) && (p.Pins().Held(extension, pins.Skill, uri) ||
			p.Pins().Beyond(extension, pins.Skill, uri)) {
			reason = "it is not what it was when policy " + p.name + " pinned it"
		}
	}
	if reason == "" {
		return nil
	}
	return protocol.Errorf(protocol.DescriptorChanged, "the skill %s of %s is held: %s; exthost policy pins shows it, "+
		"%s lets it pass", display.Visible(uri), extension, reason, pins.AcceptCommand(extension, pins.Skill, uri))
}

// hides returns the names of the tools of u that are held back even without a policy: those with hidden text, which
// nobody can have meant to approve, and those that differ from exthost.lock.
func (set *Set) hides(u *unit.Unit, offered []protocol.Tool) (names []string) {
	stated := set.permits.Tools(&u.Candidate)
	present := make([]string, 0, len(offered))
	for _, t := range offered {
		present = append(present, t.Name)
	}
	set.hidden.Keep(u.ID(), pins.Tool, present)
	for _, t := range offered { // the catalog reports other hidden characters
		if ok, _ := set.hidden.Check(pins.Sent{
			Extension: u.ID(),
			Kind:      pins.Tool,
			Name:      t.Name,
			Raw:       t.Raw,
			Unlocked:  unlocked(stated, t),
		}); !ok {
			names = append(names, t.Name)
		}
	}
	return names
}

// HashTool returns the hash of a tool descriptor for exthost.lock.
func HashTool(raw json.RawMessage) string { return listedItem(pins.Tool, raw).Hash() }

// unlocked returns the hash of a tool's descriptor if exthost.lock has a different hash or none for the tool; "" if
// the hashes agree, or if exthost.lock has none for the extension.
func unlocked(stated map[string]string, t protocol.Tool) string {
	if stated == nil {
		return ""
	}
	now := HashTool(t.Raw)
	if stated[t.Name] == now {
		return ""
	}
	return now
}

// hiddenText reports the items of u that are held back, and those that are listed with hidden text.
func (set *Set) hiddenText(u *unit.Unit, held []pins.Pin) (diags []protocol.Diagnostic) {
	d := protocol.Diagnostic{Level: protocol.LevelWarn, Code: CodeHiddenText, Extension: u.ID(), Path: u.Candidate.Path}
	var other []pins.Pin
	held = slices.DeleteFunc(held, func(p pins.Pin) bool {
		if p.Unlocked != "" {
			p.New = false
			other = append(other, p)
		}
		return p.Unlocked != ""
	})
	if len(other) > 0 {
		d := d
		d.Code = string(protocol.DescriptorChanged)
		d.Message = "held back because exthost.lock states other descriptors, or none: " + pins.Names(other)
		d.Hint = fmt.Sprintf("exthost policy pins shows them; exthost tools accept %s lets them pass, and writes "+
			"them into exthost.lock", u.ID())
		diags = append(diags, d)
	}
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
		d.Message = "listed with characters that a reader does not see: " +
			strings.Join(noted[:min(len(noted), maxHiddenNamed)], ", ")
		if more := len(noted) - maxHiddenNamed; more > 0 {
			d.Message += fmt.Sprintf(", and %d more", more)
		}
		diags = append(diags, d)
	}
	return diags
}

// maxHiddenNamed bounds the items that a diagnostic names.
const maxHiddenNamed = 8
