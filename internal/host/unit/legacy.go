package unit

import (
	"slices"
	"sync/atomic"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/supervisor"
)

// LegacyGroup is the instance that serves legacy clients of MCP if the server may speak legacy and modern
// versions, because a session speaks only one version. The instance starts with the first such client, and only
// if the other instances speak modern versions. A unit without such an instance has a LegacyGroup that is never
// used.
type LegacyGroup struct {
	unit       *Unit
	group      *supervisor.Group[*Instance] // nil: never used
	modernOnly atomic.Bool                  // the server speaks only modern versions
	handshake  atomic.Pointer[runtime.Handshake]
}

// legacyKey is the group's only key, and the key of no other instance. The status shows it as the name of the
// instance.
const legacyKey = "for legacy clients"

func newLegacyGroup(u *Unit, o *Options) *LegacyGroup {
	g := &LegacyGroup{unit: u}
	if o.BothVersions && speaksBoth(o.Spec.Manifest.Transport) && !u.PerSession() {
		options := u.groupOptions(o, u.logEvent)
		options.Mode, options.MaxInstances = supervisor.PerKey, 1
		g.group = supervisor.NewGroup(func(key string) (*Instance, error) { return u.newInstance(o, key) }, options)
	}
	return g
}

// speaksBoth reports whether a server of this transport may speak legacy and modern versions.
func speaksBoth(t manifest.Transport) bool {
	return t.Protocol == manifest.ProtocolMCP && t.Kind != manifest.KindSSE &&
		(t.MCPVersion == "" || t.MCPVersion == manifest.MCPVersionAuto)
}

func modern(hs *runtime.Handshake) bool { return protocol.IsModern(hs.ProtocolVersion) }

// Serves reports whether this instance serves s.
func (g *LegacyGroup) Serves(s *protocol.Session) bool {
	if g.group == nil || s == nil || !protocol.IsLegacy(s.Version) || g.modernOnly.Load() {
		return false
	}
	hs := g.unit.handshake.Load()
	return hs == nil || modern(hs)
}

// giveUp ends the instance, whose server speaks only modern versions. The other instances serve all clients then.
func (g *LegacyGroup) giveUp() {
	g.modernOnly.Store(true)
	g.group.Release(legacyKey)
}

// addTools adds the tools that only the group's instance has: a legacy client must see tools that its own calls
// have added.
func (g *LegacyGroup) addTools(tools []protocol.Tool) []protocol.Tool {
	hs := g.handshake.Load()
	if hs == nil {
		return tools
	}
	return withMissing(tools, hs.Tools)
}

// withMissing adds the tools of more whose names are missing in tools.
func withMissing(tools, more []protocol.Tool) []protocol.Tool {
	known := make(map[string]bool, len(tools))
	for _, t := range tools {
		known[t.Name] = true
	}
	all := slices.Clip(tools)
	for _, t := range more {
		if !known[t.Name] {
			all = append(all, t)
		}
	}
	return all
}

// slots returns the group's slot if it was used.
func (g *LegacyGroup) slots() []supervisor.SlotStatus {
	if g.group == nil {
		return nil
	}
	return slices.DeleteFunc(g.group.Status(), func(s supervisor.SlotStatus) bool { return s.State == supervisor.Idle })
}

// Handshake returns the handshake of the instance, nil before its first start.
func (g *LegacyGroup) Handshake() *runtime.Handshake { return g.handshake.Load() }
