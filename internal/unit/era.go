package unit

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/supervisor"
)

// olderGroup is the instance that serves clients of the older era of MCP, where the
// server may speak both eras: a child's session belongs to one era. The instance starts
// with the first such client, and only if the other instances speak the newer era. A unit
// without one has an olderGroup that is never used.
type olderGroup struct {
	unit      *Unit
	exists    bool
	group     *supervisor.Group[*Instance]
	newerOnly atomic.Bool // the server turned out to speak the newer era alone
	handshake atomic.Pointer[runtime.Handshake]
}

// olderKey is the one key of the group.
const olderKey = "initialize"

func (u *Unit) newOlderGroup(o *Options) *olderGroup {
	g := &olderGroup{unit: u, exists: o.BothEras && speaksBoth(o.Spec.Manifest.Transport) && !u.PerSession()}
	if g.exists {
		options := u.groupOptions(o.Keep, u.logEvent)
		options.Mode, options.MaxInstances = supervisor.PerKey, 1
		g.group = supervisor.NewGroup(func(key string) (*Instance, error) { return u.newInstance(o, key, true) }, options)
	}
	return g
}

// speaksBoth reports whether a server of that transport may speak both eras.
func speaksBoth(t manifest.Transport) bool {
	return t.Protocol == manifest.ProtocolMCP && t.Kind != manifest.KindSSE && (t.MCPVersion == "" || t.MCPVersion == manifest.MCPVersionAuto)
}

// IsOlder reports whether s is of an MCP client of the older era.
func IsOlder(s *protocol.Session) bool {
	return s != nil && s.Version != "" && s.Version < protocol.MCP20260728
}

// serves reports whether the group serves s.
func (g *olderGroup) serves(s *protocol.Session) bool {
	if !g.exists || !IsOlder(s) || g.newerOnly.Load() {
		return false
	}
	hs := g.unit.handshake.Load()
	return hs == nil || hs.Era >= protocol.MCP20260728
}

// acquire returns the instance of the era of s: of the group, or of the others.
func (g *olderGroup) acquire(ctx context.Context, others *supervisor.Group[*Instance], s *protocol.Session, key string) (*Instance, func(error), error) {
	if !g.serves(s) {
		return others.Acquire(ctx, key)
	}
	i, release, err := g.group.Acquire(ctx, olderKey)
	if err != nil || i.Handshake().Era < protocol.MCP20260728 {
		return i, release, err
	}
	release(nil)
	g.newerOnly.Store(true)
	g.group.Release(olderKey)
	return others.Acquire(ctx, key)
}

// addTools returns tools and those that only the group's instance has: a client of the
// older era must see the tools that it has brought about.
func (g *olderGroup) addTools(tools []protocol.Tool) []protocol.Tool {
	hs := g.handshake.Load()
	if hs == nil {
		return tools
	}
	known := make(map[string]bool, len(tools))
	for _, t := range tools {
		known[t.Name] = true
	}
	all := slices.Clip(tools)
	for _, t := range hs.Tools {
		if !known[t.Name] {
			all = append(all, t)
		}
	}
	return all
}

// slots returns the group's slot once it was used.
func (g *olderGroup) slots() []supervisor.SlotStatus {
	if !g.exists {
		return nil
	}
	return slices.DeleteFunc(g.group.Status(), func(s supervisor.SlotStatus) bool { return s.State == supervisor.Idle })
}

func (g *olderGroup) stop(ctx context.Context, drain time.Duration) error {
	if !g.exists {
		return nil
	}
	return g.group.Stop(ctx, drain)
}

func (g *olderGroup) restart(ctx context.Context) error {
	if !g.exists {
		return nil
	}
	return g.group.Restart(ctx)
}

// ServesOlder reports whether s is served by the instance for clients of the older era.
func (u *Unit) ServesOlder(s *protocol.Session) bool { return u.older.serves(s) }

// OlderHandshake returns the handshake of the instance for clients of the older era; nil
// before that has started.
func (u *Unit) OlderHandshake() *runtime.Handshake { return u.older.handshake.Load() }

// AcquireOlder returns the instance for clients of the older era.
func (u *Unit) AcquireOlder(ctx context.Context) (*Instance, func(error), error) {
	return u.older.group.Acquire(ctx, olderKey)
}
