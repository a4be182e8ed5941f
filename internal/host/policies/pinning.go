package policies

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/listing/skills"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// pinning is a policy that pins the descriptors of extensions.
type pinning struct {
	*builtin.Pin
	name   string
	shadow bool // reports changes without withholding items
}

// PinsToolsOf reports whether a policy pins the tools of an extension.
func (set *Set) PinsToolsOf(extension string) bool { return set.pins(extension, pins.Tool) }

func (set *Set) pins(extension string, kind pins.Kind) bool {
	return slices.ContainsFunc(set.pinning, func(p pinning) bool { return p.Guards(extension, kind) })
}

// Pin pins the descriptors of an extension's first handshake, and at once withholds those that a later handshake
// changes or adds. The next snapshot leaves withheld tools out of lists. i is the instance after its handshake.
func (set *Set) Pin(i *unit.Instance) {
	if len(set.pinning) == 0 { // saves reading the descriptors
		return
	}
	set.WithholdsIntroduction(i)
	if i.InLegacyGroup() { // its tools are pinned with those of the other handshake
		return
	}
	set.look(pins.List{
		Extension: i.Unit.ID(),
		Kind:      pins.Tool,
		Items:     toolItems(i.Handshake().Tools),
		Whole:     true,
	})
}

// look compares a list with the pins of all policies that guard it, and returns the names of the withheld items.
// changed reports whether there is something to save.
func (set *Set) look(l pins.List) (withheld []string, changed bool) {
	for _, p := range set.pinning {
		if !p.Guards(l.Extension, l.Kind) {
			continue
		}
		held, more := p.Pins().Look(l)
		if changed = changed || more; !p.shadow {
			withheld = append(withheld, held...)
		}
	}
	return withheld, changed
}

// WithholdsIntroduction reports whether the server info and instructions in an instance's handshake are withheld
// from clients.
func (set *Set) WithholdsIntroduction(i *unit.Instance) (withheld, changed bool) {
	hs := i.Handshake()
	if len(set.pinning) == 0 || hs.Protocol != manifest.ProtocolMCP { // other protocols have no introduction
		return false, false
	}
	name := ""
	if i.InLegacyGroup() {
		name = "for older clients"
	}
	names, changed := set.look(pins.List{
		Extension: i.Unit.ID(),
		Kind:      pins.Introduction,
		Items:     []pins.Item{pins.NewIntroduction(name, hs.Instructions, hs.ServerInfo)},
	})
	return len(names) > 0, changed
}

// LookAtSkills compares the skills in the folder of an extension, all of them, with their pins, and looks for hidden
// text in their files.
func (set *Set) LookAtSkills(extension string, list []skills.Entry) {
	l, uris := pins.List{Extension: extension, Kind: pins.Skill, Whole: true}, make([]string, 0, len(list))
	for _, e := range list {
		l.Items, uris = append(l.Items, pins.NewListed(pins.Skill, e.Judged)), append(uris, e.URI)
		set.hidden.Check(pins.Sent{
			Extension: extension,
			Kind:      pins.Skill,
			Name:      e.URI,
			Raw:       e.Judged,
			Note:      true,
		})
	}
	set.hidden.Keep(extension, pins.Skill, uris)
	if len(list) > 0 || set.pins(extension, pins.Skill) {
		set.look(l)
	}
}

// toolItems returns the items of tools. The catalog reports unreadable ones.
func toolItems(offered []protocol.Tool) (items []pins.Item) {
	for _, t := range offered {
		if parsed, err := tools.ParseDescriptor(t.Raw); err == nil {
			items = append(items, pins.NewTool(parsed))
		}
	}
	return items
}

// Page is one page of a list.
type Page struct {
	Extension    string
	Kind         pins.Kind
	Cursor, Next string
	Items        []json.RawMessage
}

// Show returns the items of the page that are not withheld, by a policy or for hidden text. changed reports
// whether the status or the pins have changed.
func (set *Set) Show(page Page) (shown []json.RawMessage, changed bool) {
	l := pins.List{Extension: page.Extension, Kind: page.Kind, Cursor: page.Cursor, Next: page.Next}
	withheld := make(map[string]bool)
	for _, raw := range page.Items {
		item := listedItem(page.Kind, raw)
		l.Items = append(l.Items, item)
		ok, other := set.hidden.Check(pins.Sent{
			Extension: page.Extension,
			Kind:      item.Kind,
			Name:      item.Name,
			Raw:       raw,
			Note:      true,
		})
		withheld[item.Name], changed = withheld[item.Name] || !ok, changed || other
	}
	names, other := set.look(l)
	for _, name := range names {
		withheld[name] = true
	}
	for i, raw := range page.Items {
		if !withheld[l.Items[i].Name] {
			shown = append(shown, raw)
		}
	}
	return shown, changed || other
}

func listedItem(kind pins.Kind, raw json.RawMessage) pins.Item {
	if kind != pins.Tool {
		return pins.NewListed(kind, raw)
	}
	t, err := tools.ParseDescriptor(raw)
	if err != nil { // clients may be able to read it all the same
		t = protocol.Tool{InputSchema: raw}
		t.Name, _ = rawjson.Text(rawjson.Get(raw, "name"))
	}
	return pins.NewTool(t)
}

// Withheld returns the names of tools to be left out of lists, and the diagnostics about them.
func (set *Set) Withheld(u *unit.Unit, offered []protocol.Tool) (names []string, diags []protocol.Diagnostic) {
	if len(offered) > 0 && len(set.pinning) > 0 {
		names, _ = set.look(pins.List{Extension: u.ID(), Kind: pins.Tool, Items: toolItems(offered)})
	}
	names = append(names, set.hides(u, offered)...)
	present := make(map[string]bool, len(offered))
	for _, t := range offered {
		present[t.Name] = true
	}
	return names, set.held(u, func(p pins.Pin) bool { return p.Kind != pins.Tool || present[p.Name] })
}

// WithheldBefore returns the diagnostics about a destination, which lists its tools itself.
func (set *Set) WithheldBefore(u *unit.Unit) []protocol.Diagnostic {
	return set.held(u, func(pins.Pin) bool { return true })
}

// held returns the diagnostics about the held items of u that about selects.
func (set *Set) held(u *unit.Unit, about func(pins.Pin) bool) (diags []protocol.Diagnostic) {
	for _, p := range set.pinning {
		for _, kind := range p.Pins().Full(u.ID()) {
			if p.Guards(u.ID(), kind) {
				diags = append(diags, protocol.Diagnostic{
					Level:     protocol.LevelWarn,
					Code:      string(protocol.DescriptorChanged),
					Extension: u.ID(),
					Path:      u.Candidate.Path,
					Message:   fmt.Sprintf("policy %s: %s", p.name, p.NoRoom(u.ID(), kind)),
				})
			}
		}
		list := slices.DeleteFunc(p.Pins().HeldOf(u.ID()),
			func(one pins.Pin) bool { return !p.Guards(one.Extension, one.Kind) || !about(one) })
		if len(list) == 0 {
			continue
		}
		text := fmt.Sprintf("changed since policy %s pinned them, and held back: %s", p.name, pins.Names(list))
		if p.shadow {
			text = fmt.Sprintf("changed since policy %s pinned them, which would hold them back if it were not in "+
				"shadow mode: %s", p.name, pins.Names(list))
		}
		diags = append(diags, protocol.Diagnostic{
			Level:     protocol.LevelWarn,
			Code:      string(protocol.DescriptorChanged),
			Extension: u.ID(),
			Path:      u.Candidate.Path,
			Message:   text,
			Hint:      "exthost policy pins shows the changes, exthost tools accept " + u.ID() + " lets them pass",
		})
	}
	hidden := slices.DeleteFunc(set.hidden.List(), func(p pins.Pin) bool { return p.Extension != u.ID() || !about(p) })
	return append(diags, set.hiddenText(u, hidden)...)
}

// SavePins writes the pins, or reports why it failed.
func (set *Set) SavePins() (diags []protocol.Diagnostic) {
	for _, p := range set.pinning {
		if err := p.Pins().Save(); err != nil {
			diags = append(diags, protocol.Diagnostic{
				Level:   protocol.LevelError,
				Code:    string(protocol.ConfigInvalid),
				Message: fmt.Sprintf("policy %s pins tools until the host ends, and not longer: %v", p.name, err),
			})
		}
	}
	return diags
}
