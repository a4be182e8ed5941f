package exthost

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Pin is one pinned tool, and the name of the policy that has pinned it.
type Pin struct {
	Policy string `json:"policy"`
	pins.Pin
}

// pinning is a policy that pins tools.
type pinning struct {
	*builtin.Pin
	name   string
	shadow bool // it holds nothing back, and says what it would
}

// pinning are the policies of r that pin tools.
func (r *roster) pinning() (list []pinning) {
	for _, m := range r.members {
		if p, ok := m.Policy.(*builtin.Pin); ok {
			list = append(list, pinning{p, m.Spec.Name, m.Spec.Mode == governance.ModeShadow})
		}
	}
	return list
}

// pins reports whether a policy of r pins the tools of an extension.
func (r *roster) pins(extension string) bool {
	return slices.ContainsFunc(r.pinning(), func(p pinning) bool { return p.Guards(extension) })
}

// pin holds back at once what an instance of x says now and did not say before. The
// next generation leaves it out of lists.
func (r *roster) pin(x *extension, offered []protocol.Tool) {
	for _, p := range r.pinning() {
		p.hold(x, offered)
	}
}

// unpinned reports whether a policy holds back a tool that a destination lists.
func (r *roster) unpinned(x *extension, descriptor json.RawMessage) bool {
	t, err := tools.ParseDescriptor(descriptor)
	return err == nil && slices.ContainsFunc(r.pinning(), func(p pinning) bool {
		return len(p.hold(x, []protocol.Tool{t})) > 0 && !p.shadow
	})
}

// pinsFile is where pins are kept that name no file, below the state directory.
func pinsFile(stateDir string) string { return filepath.Join(stateDir, "pins.json") }

// hold pins those tools of x that are new, and returns the names of those that have
// changed.
func (p pinning) hold(x *extension, offered []protocol.Tool) (changed []string) {
	if !p.Guards(x.candidate.ID) {
		return nil
	}
	for _, t := range offered {
		parsed, err := tools.ParseDescriptor(t.Raw)
		if err != nil {
			continue // which the catalog reports
		}
		if ok, _ := p.Pins().Check(x.candidate.ID, parsed); !ok {
			changed = append(changed, t.Name)
		}
	}
	return changed
}

// held are the names of the tools of x that had changed when they were last seen.
func (p pinning) held(x *extension) (changed []string) {
	for _, pin := range p.Pins().List() {
		if pin.Held && pin.Extension == x.candidate.ID {
			changed = append(changed, pin.Tool)
		}
	}
	return changed
}

// withhold returns the names of those to be left out of lists, of tools of x that
// have changed, and what there is to say of it.
func (p pinning) withhold(x *extension, changed []string) (names []string, diags []protocol.Diagnostic) {
	if len(changed) == 0 {
		return nil, nil
	}
	d := protocol.Diagnostic{Level: protocol.LevelWarn, Code: string(protocol.DescriptorChanged), Extension: x.candidate.ID, Path: x.candidate.Path,
		Message: fmt.Sprintf("not what they were when policy %s pinned them, and held back: %s", p.name, strings.Join(changed, ", ")),
		Hint:    "exthost policy pins shows the changes, exthost policy pins approve " + x.candidate.ID + " lets them pass"}
	if p.shadow {
		d.Message = fmt.Sprintf("not what they were when policy %s pinned them, which would hold them back if it were not in shadow mode: %s", p.name, strings.Join(changed, ", "))
		changed = nil
	}
	return changed, append(diags, d)
}

// save writes what was pinned, or says why that cannot be done.
func (p pinning) save() []protocol.Diagnostic {
	if err := p.Pins().Save(); err != nil {
		return []protocol.Diagnostic{{Level: protocol.LevelError, Code: string(protocol.ConfigInvalid),
			Message: fmt.Sprintf("policy %s pins tools until the host ends, and not longer: %v", p.name, err)}}
	}
	return nil
}
