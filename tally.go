package exthost

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/latency"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Outcome is how an exchange ended: ok, tool_error, or the kind of its error. The
// set is closed, fit for a metric's label.
type Outcome string

// The outcomes that are no kind of error.
const (
	OutcomeOK        Outcome = "ok"
	OutcomeToolError Outcome = "tool_error" // the tool ran, and says that it failed
)

// outcomes are all, in the order in which they are counted.
var outcomes = func() []Outcome {
	all := []Outcome{OutcomeOK, OutcomeToolError}
	for _, kind := range protocol.Kinds() {
		all = append(all, Outcome(kind))
	}
	return all
}()

// outcomeOf is how an exchange with this end is counted.
func outcomeOf(result json.RawMessage, err error) Outcome {
	switch {
	case err != nil:
		return Outcome(cmp.Or(protocol.KindOf(err), protocol.ExtensionError))
	case mentionsError(result) && string(rawjson.Get(result, "isError")) == "true":
		return OutcomeToolError
	}
	return OutcomeOK
}

// mentionsError reports whether isError may be among the members of a result. It looks
// for the rarest letter of it, which in a long text is several times faster than for all.
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

// tally counts what the status does not: calls by tool and outcome, and what
// hooks did. It outlives generations, so that its numbers only grow.
type tally struct {
	tools  table[toolKey, toolTally]
	hooks  table[hookKey, atomic.Int64]
	points table[hooks.Point, latency.Histogram]
}

type toolKey struct{ extension, tool string }

// toolTally has one count for each of [outcomes], for which there is room.
type toolTally [32]atomic.Int64

// hookKey leaves out the handler's name, which may be a whole command line.
type hookKey struct {
	point     hooks.Point
	extension string // whose the handler is; "" for the operator's and the program's
	outcome   governance.Outcome
}

// call counts a call of a tool of the catalog.
func (t *tally) call(extension, tool string, o Outcome) {
	t.tools.get(toolKey{extension, tool})[max(0, slices.Index(outcomes, o))].Add(1)
}

// astray counts a call of what there is not. Its name is the caller's free choice.
func (t *tally) astray(err error) { t.call("", "", outcomeOf(nil, err)) }

// hook counts what a handler of a hook did.
func (t *tally) hook(e *hooks.Event, s hooks.Step) {
	key := hookKey{e.Point, s.Extension, governance.Continue}
	switch {
	case s.Err != nil:
		key.outcome = governance.PluginError
	case s.Reply != nil && (s.Reply.Abort || s.Reply.Decision == hooks.Deny):
		key.outcome = governance.Rejected
	}
	t.hooks.get(key).Add(1)
	t.points.get(e.Point).Record(s.Took)
}

// maxTallied bounds a table: what a catalog of a thousand tools and a few reloads
// need several times over.
const maxTallied = 4096

// table is a map that only grows, is read without a lock, and has a bound: what
// does not fit counts under the zero key.
type table[K comparable, V any] struct {
	mu  sync.Mutex // of those who add
	now atomic.Pointer[map[K]*V]
}

// get returns the value of key, which it makes if need be.
func (t *table[K, V]) get(key K) *V {
	if m := t.now.Load(); m != nil {
		if v := (*m)[key]; v != nil {
			return v
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.all()
	if len(m) >= maxTallied {
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

// all returns what there is, not to be written to.
func (t *table[K, V]) all() map[K]*V {
	if m := t.now.Load(); m != nil {
		return *m
	}
	return nil
}
