package exthost

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/supervisor"
)

// A session of an extension's own belongs to one era of MCP. An extension that may
// speak both has a second group, for clients of the older era: it starts when the
// first of them calls, and only if the other instances turn out to speak the newer.

// speaksBoth reports whether the extension may be asked for either era.
func speaksBoth(t manifest.Transport) bool {
	return t.Protocol == manifest.ProtocolMCP && t.Kind != manifest.KindSSE && (t.MCPVersion == "" || t.MCPVersion == manifest.MCPVersionAuto)
}

// isOlder reports whether s is of an MCP client of the older era.
func isOlder(s *protocol.Session) bool {
	return s != nil && s.Version != "" && s.Version < protocol.MCP20260728
}

// forOlder reports whether s is served by the second group.
func (x *extension) forOlder(s *protocol.Session) bool {
	if x.older == nil || !isOlder(s) || x.newerOnly.Load() {
		return false
	}
	hs := x.handshake.Load()
	return hs == nil || hs.Era >= protocol.MCP20260728
}

// serveBoth gives the extension its second group, if it needs one.
func (x *extension) serveBoth(spec runtime.Spec) {
	if !speaksBoth(spec.Manifest.Transport) || spec.Options.Instances.PerSession() {
		return
	}
	o := groupOptions(x, spec.Options)
	o.Mode, o.MaxInstances = supervisor.PerKey, 1
	x.older = supervisor.NewGroup(func(key string) (*instance, error) { return x.instance(spec, key, true, runtime.New) }, o)
}

// acquire returns the instance that serves a call of s.
func (x *extension) acquire(ctx context.Context, s *protocol.Session, key string) (*instance, func(error), error) {
	if x.bridge != nil {
		return x.acquireBridged(ctx, s, key)
	}
	return x.acquireEra(ctx, s, key)
}

// acquireEra returns the instance that serves a call of s, of the era it belongs
// to. A server that turns out to speak the newer era alone needs no second group.
func (x *extension) acquireEra(ctx context.Context, s *protocol.Session, key string) (*instance, func(error), error) {
	if !x.forOlder(s) {
		return x.group.Acquire(ctx, key)
	}
	i, release, err := x.older.Acquire(ctx, olderKey)
	if err != nil || i.Handshake().Era < protocol.MCP20260728 {
		return i, release, err
	}
	release(nil)
	x.newerOnly.Store(true)
	x.older.Release(olderKey)
	return x.group.Acquire(ctx, key)
}

// withOlder returns tools and those that only instances of the second group have:
// what a client of the older era brought about there is to be seen by it.
func (x *extension) withOlder(tools []protocol.Tool) []protocol.Tool {
	hs := x.olderShook.Load()
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

// slots are the slots of both groups; of the second only once it was needed.
func (x *extension) slots() []supervisor.SlotStatus {
	slots := x.group.Status()
	if x.older == nil {
		return slots
	}
	for _, slot := range x.older.Status() {
		if slot.State != supervisor.Idle {
			slots = append(slots, slot)
		}
	}
	return slots
}

// olderKey is the one key of the second group.
const olderKey = "initialize"

func (x *extension) stop(ctx context.Context, drain time.Duration) error {
	var others sync.WaitGroup
	var older error
	if x.older != nil {
		others.Go(func() { older = x.older.Stop(ctx, drain) })
	}
	if x.bridge != nil {
		others.Go(func() { x.bridge.standby.Stop(ctx) })
	}
	err := x.group.Stop(ctx, drain)
	others.Wait()
	return errors.Join(err, older)
}

func (x *extension) restart(ctx context.Context) error {
	if x.bridge != nil {
		x.bridge.fuses.mended()
		if err := x.bridge.start(ctx); err != nil {
			return err
		}
	}
	err := x.group.Restart(ctx)
	if x.older != nil {
		err = errors.Join(err, x.older.Restart(ctx))
	}
	return err
}
