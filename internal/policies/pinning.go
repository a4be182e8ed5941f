package policies

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// pinning is a policy that pins the descriptors of tools.
type pinning struct {
	*builtin.Pin
	name   string
	shadow bool // reports changed tools and withholds none
}

// PinsToolsOf reports whether a policy pins the tools of an extension.
func (set *Set) PinsToolsOf(extension string) bool {
	return slices.ContainsFunc(set.pinning, func(p pinning) bool { return p.Guards(extension) })
}

// Pin pins the tools of an extension that are new, and withholds those that have changed
// at once. The next snapshot leaves these out of lists.
func (set *Set) Pin(extension string, offered []protocol.Tool) {
	for _, p := range set.pinning {
		p.changed(extension, offered)
	}
}

// Withholds reports whether a policy withholds a tool that a destination lists.
func (set *Set) Withholds(destination string, descriptor json.RawMessage) bool {
	if !set.PinsToolsOf(destination) {
		return false
	}
	t, err := tools.ParseDescriptor(descriptor)
	if err != nil { // its clients may read it all the same
		t = protocol.Tool{InputSchema: descriptor}
		t.Name, _ = rawjson.Text(rawjson.Get(descriptor, "name"))
	}
	return slices.ContainsFunc(set.pinning, func(p pinning) bool {
		if !p.Guards(destination) {
			return false
		}
		ok, _ := p.Pins().Check(destination, t)
		return !ok && !p.shadow
	})
}

// Withheld returns the names of the tools of u to be left out of lists, and what to
// report about them.
func (set *Set) Withheld(u *unit.Unit, offered []protocol.Tool) (names []string, diags []protocol.Diagnostic) {
	for _, p := range set.pinning {
		withheld, found := p.withhold(u, p.changed(u.ID(), offered))
		names, diags = append(names, withheld...), append(diags, found...)
	}
	return names, diags
}

// WithheldBefore returns what to report about the tools of a destination that had changed
// when they were last seen. A destination lists its tools itself.
func (set *Set) WithheldBefore(u *unit.Unit) (diags []protocol.Diagnostic) {
	for _, p := range set.pinning {
		var changed []string
		for _, pin := range p.Pins().List() {
			if pin.Held && pin.Extension == u.ID() {
				changed = append(changed, pin.Tool)
			}
		}
		_, found := p.withhold(u, changed)
		diags = append(diags, found...)
	}
	return diags
}

// SavePins writes the pins, or reports why that failed.
func (set *Set) SavePins() (diags []protocol.Diagnostic) {
	for _, p := range set.pinning {
		if err := p.Pins().Save(); err != nil {
			diags = append(diags, protocol.Diagnostic{Level: protocol.LevelError, Code: string(protocol.ConfigInvalid),
				Message: fmt.Sprintf("policy %s pins tools until the host ends, and not longer: %v", p.name, err)})
		}
	}
	return diags
}

// changed pins those tools of an extension that are new, and returns the names of those
// that have changed.
func (p pinning) changed(extension string, offered []protocol.Tool) (names []string) {
	if !p.Guards(extension) {
		return nil
	}
	for _, t := range offered {
		parsed, err := tools.ParseDescriptor(t.Raw)
		if err != nil {
			continue // the catalog reports it
		}
		if ok, _ := p.Pins().Check(extension, parsed); !ok {
			names = append(names, t.Name)
		}
	}
	return names
}

// withhold returns the names of the changed tools of u that are left out of lists, and
// what to report about them.
func (p pinning) withhold(u *unit.Unit, changed []string) (names []string, diags []protocol.Diagnostic) {
	if len(changed) == 0 {
		return nil, nil
	}
	d := protocol.Diagnostic{Level: protocol.LevelWarn, Code: string(protocol.DescriptorChanged), Extension: u.ID(), Path: u.Candidate.Path,
		Message: fmt.Sprintf("changed since policy %s pinned them, and held back: %s", p.name, strings.Join(changed, ", ")),
		Hint:    "exthost policy pins shows the changes, exthost tools accept " + u.ID() + " lets them pass"}
	if p.shadow {
		d.Message = fmt.Sprintf("changed since policy %s pinned them, which would hold them back if it were not in shadow mode: %s", p.name, strings.Join(changed, ", "))
		changed = nil
	}
	return changed, append(diags, d)
}

// Pins returns the tools that policies have pinned, by policy, extension and tool.
func (set *Set) Pins() (list []status.Pin) {
	for _, p := range set.pinning {
		for _, pin := range p.Pins().List() {
			list = append(list, status.Pin{Policy: p.name, Pin: pin})
		}
	}
	return list
}

// ApprovePin pins a tool of an extension as it is now, or with tool "" all its tools that
// are withheld. by names the approver. Nothing to approve is a tool_not_found error.
func (s *State) ApprovePin(set *Set, extension, tool, by string) error {
	approved := 0
	for _, p := range set.pinning {
		for _, pin := range p.Pins().List() {
			if !pin.Held || pin.Extension != extension || tool != "" && pin.Tool != tool {
				continue
			}
			if err := p.Pins().Approve(extension, pin.Tool, by); err != nil {
				return err
			}
			approved++
			s.env.Log.Info("a changed tool was approved", "extension", extension, "tool", pin.Tool, "by", by)
		}
	}
	if approved == 0 {
		return set.nothingWithheld(extension, tool)
	}
	return nil
}

// nothingWithheld says why there is nothing to accept.
func (set *Set) nothingWithheld(extension, tool string) error {
	known := func(p status.Pin) bool { return p.Extension == extension && (tool == "" || p.Tool == tool) }
	switch {
	case tool == "":
		return protocol.Errorf(protocol.ToolNotFound, "no tool of an extension %q has changed: there is nothing to accept", extension)
	case len(set.pinning) > 0 && !slices.ContainsFunc(set.Pins(), known):
		return protocol.Errorf(protocol.ToolNotFound, "no tool %q of %s is pinned; name it as the extension does", tool, extension)
	}
	return protocol.Errorf(protocol.ToolNotFound, "the tool %s of %s has not changed: there is nothing to accept", tool, extension)
}
