package stats

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// outcomes has the order of the counters in [toolCounters].
var outcomes = status.Outcomes()

// OutcomeOf returns the outcome of an exchange that ended with result or err.
func OutcomeOf(result json.RawMessage, err error) status.Outcome {
	switch {
	case err != nil:
		return status.Outcome(cmp.Or(protocol.KindOf(err), protocol.ExtensionError))
	case mentionsError(result) && string(rawjson.Get(result, "isError")) == "true":
		return status.OutcomeToolError
	}
	return status.OutcomeOK
}

// mentionsError reports whether isError may be a member of result. It searches for the rarest letter of the key,
// which in a long text is several times faster than a search for the whole key.
func mentionsError(result []byte) bool {
	const key, rare = `"isError"`, 3
	for at := 0; ; at++ {
		i := bytes.IndexByte(result[at:], key[rare])
		if i < 0 {
			return false
		}
		if at += i; at >= rare && bytes.HasPrefix(result[at-rare:], []byte(key)) {
			return true
		}
	}
}

// Counters counts calls by tool and outcome, and runs of hooks. It outlives snapshots, so its numbers only grow.
// The zero value is ready to use.
type Counters struct {
	tools  table[toolKey, toolCounters]
	hooks  table[hookKey, atomic.Int64]
	points table[hooks.Point, distribution]
}

type toolKey struct{ extension, tool string }

// toolCounters has one counter for each of [outcomes], and room for more.
type toolCounters struct {
	ended [32]atomic.Int64
	tally
}

// hookKey omits the handler's name, which may be a whole command line.
type hookKey struct {
	point     hooks.Point
	extension string // of the handler; "": a handler of the operator or of the program
	outcome   governance.Outcome
}

// call counts a call of a tool that an instance had for the duration served. tool is "" for destinations, whose
// tools are not in the catalog.
func (c *Counters) call(extension, tool string, o status.Outcome, served time.Duration) {
	t := c.tools.get(toolKey{extension, tool})
	t.ended[max(0, slices.Index(outcomes, o))].Add(1)
	t.add(o, served)
}

// Use returns the counts of a tool, nil if it was never called.
func (c *Counters) Use(extension, tool string) *status.ToolUse {
	t := c.tools.all()[toolKey{extension, tool}]
	if t == nil {
		return nil
	}
	return &status.ToolUse{
		Calls:      t.calls.Load(),
		Denied:     t.denied.Load(),
		Errors:     t.errors.Load(),
		ToolErrors: t.toolErrors.Load(),
		Latency:    t.took.Latency(),
	}
}

// UnknownTarget counts a call of something that does not exist. It has no label, because the caller chooses the
// name freely.
func (c *Counters) UnknownTarget(err error) { c.call("", "", OutcomeOf(nil, err), 0) }

// Hook counts one run of a handler.
func (c *Counters) Hook(e *hooks.Event, s hooks.Step) {
	key := hookKey{e.Point, s.Extension, governance.Continue}
	switch {
	case s.Err != nil:
		key.outcome = governance.PluginError
	case s.Reply != nil && (s.Reply.Abort || s.Reply.Decision == hooks.Deny):
		key.outcome = governance.Rejected
	}
	c.hooks.get(key).Add(1)
	c.points.get(e.Point).Record(s.Took)
}

// Describe adds the counts to m.
func (c *Counters) Describe(m *status.Measures) {
	for key, counts := range c.tools.all() {
		for i, outcome := range outcomes {
			if n := counts.ended[i].Load(); n > 0 {
				m.Calls = append(m.Calls,
					status.CallMeasure{Extension: key.extension, Tool: key.tool, Outcome: outcome, Count: n})
			}
		}
	}
	for key, n := range c.hooks.all() {
		m.Hooks = append(m.Hooks,
			status.HookMeasure{Point: key.point, Extension: key.extension, Outcome: key.outcome, Count: n.Load()})
	}
	for point, took := range c.points.all() {
		m.Points = append(m.Points, status.PointMeasure{Point: point, Runs: took.Totals()})
	}
}

// maxKeys bounds a table. A catalog of a thousand tools and a few reloads need a quarter of it.
const maxKeys = 4096

// table is a map that seldom changes, is read without a lock and holds at most [maxKeys] keys. Further keys share the
// value of the zero key.
type table[K comparable, V any] struct {
	mu  sync.Mutex // held by writers
	now atomic.Pointer[map[K]*V]
}

// get returns the value of key, and makes it if it is missing.
func (t *table[K, V]) get(key K) *V {
	if m := t.now.Load(); m != nil {
		if v := (*m)[key]; v != nil {
			return v
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.all()
	if len(m) >= maxKeys {
		key = *new(K)
	}
	if v := m[key]; v != nil {
		return v
	}
	grown := make(map[K]*V, len(m)+1)
	maps.Copy(grown, m)
	v := new(V)
	grown[key] = v
	t.now.Store(&grown)
	return v
}

// all returns the map, which the caller must not change.
func (t *table[K, V]) all() map[K]*V {
	if m := t.now.Load(); m != nil {
		return *m
	}
	return nil
}

// remove removes the keys for which del is true. What still counts by a value of theirs is lost.
func (t *table[K, V]) remove(del func(K) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := maps.Clone(t.all())
	maps.DeleteFunc(rest, func(key K, _ *V) bool { return del(key) })
	t.now.Store(&rest)
}
