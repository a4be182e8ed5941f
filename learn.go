package exthost

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/tools"
)

// fingerprint returns the key under which the offer of an extension that starts on
// demand is kept; "" for the others, and where it cannot be made.
func (x *extension) fingerprint(s *runtime.Spec, entry config.Entry) string {
	if !x.onDemand() || x.declares() {
		return ""
	}
	key, err := fingerprint(s, entry)
	if err != nil {
		x.log.Debug("its tools will not be kept for the next start", "reason", err)
	}
	return key
}

// remember takes in what the extension last offered. When it is still the same
// that would be started, that is its handshake until it runs.
func (x *extension) remember() {
	if x.declares() {
		return
	}
	last, err := x.memory.recall(x.candidate.ID)
	if err != nil {
		x.log.Debug("what it last offered cannot be read, and it starts without", "error", err)
	}
	x.last = last
	if last == nil || !x.onDemand() {
		return
	}
	if key := x.print(); key != "" && key == last.Key {
		x.handshake.Store(&last.Handshake)
	}
}

// learn holds what an instance offers against what was known of its extension,
// keeps it for the next time, and asks for a new generation.
func (h *Host) learn(i *instance, announced bool) {
	if i.older { // it is there to be called, not to be kept
		i.extension.olderShook.Store(i.Handshake())
		h.offersChanged()
		return
	}
	i.extension.handshake.Store(i.Handshake())
	if i.extension.policy != nil {
		return // offers nothing
	}
	h.gen.Load().pin(i.extension, i.Handshake().Tools)
	h.offersChanged()
	if i.extension.declares() {
		return
	}
	changes := i.extension.learn(&offer{Key: i.print, Handshake: *i.Handshake()})
	if h.gen.Load().pins(i.extension.candidate.ID) { // which then says what has changed
		changes = slices.DeleteFunc(changes, tools.Change.Altered)
	}
	if len(changes) > 0 {
		h.reportChange(i.extension, changes, announced)
	}
}

// learn makes now the last known offer and returns what changed.
func (x *extension) learn(now *offer) []tools.Change {
	x.learning.Lock()
	defer x.learning.Unlock()
	last := x.last
	x.last = now
	var changes []tools.Change
	if last != nil {
		changes = tools.Diff(last.Handshake.Tools, now.Handshake.Tools)
	}
	if last != nil && len(changes) == 0 && last.same(now) {
		return nil
	}
	if err := x.memory.keep(x.candidate.ID, now); err != nil {
		x.log.Debug("what it offers is not kept", "error", err)
	}
	return changes
}

// lastHooks are the points of the last handshake, of the program that was there then.
func (x *extension) lastHooks() []string {
	x.learning.Lock()
	defer x.learning.Unlock()
	if x.last == nil {
		return nil
	}
	return x.last.Handshake.Hooks
}

// same reports whether two offers with the same tools are the same in all that a
// host without the extension's process would say of it.
func (o *offer) same(now *offer) bool {
	a, b := &o.Handshake, &now.Handshake
	return o.Key == now.Key && a.ServerVersion == b.ServerVersion && a.Protocol == b.Protocol && a.Era == b.Era &&
		a.Instructions == b.Instructions && bytes.Equal(a.Capabilities, b.Capabilities) && slices.Equal(a.Hooks, b.Hooks)
}

// changesTold is how many changes a diagnostic lists.
const changesTold = 8

// reportChange says how the tools of x are not what they were, in place of what was
// said of an earlier change. New ones that an extension announces while it runs are
// no warning; others mean another program, or one with something to hide.
func (h *Host) reportChange(x *extension, changes []tools.Change, announced bool) {
	d := protocol.Diagnostic{
		Level: protocol.LevelWarn, Code: string(protocol.DescriptorChanged), Extension: x.candidate.ID, Path: x.candidate.Path,
		Message: "its tools are not what they were: " + listed(changes),
		Hint:    "if nobody updated it, name it in extensions.disabled and ask its author",
	}
	if announced && !slices.ContainsFunc(changes, tools.Change.Altered) {
		d.Level, d.Hint = protocol.LevelInfo, ""
	}
	h.mu.Lock()
	h.diagnostics = slices.DeleteFunc(h.diagnostics, func(old protocol.Diagnostic) bool {
		return old.Code == d.Code && old.Extension == d.Extension
	})
	h.diagnostics = append(h.diagnostics, d)
	h.mu.Unlock()
	h.logDiagnostic(d)
}

func listed(changes []tools.Change) string {
	var lines []string
	for _, c := range changes[:min(len(changes), changesTold)] {
		lines = append(lines, c.String())
	}
	if more := len(changes) - changesTold; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "; ")
}
