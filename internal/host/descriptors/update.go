package descriptors

import (
	"slices"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// maxWithdrawn bounds the withdrawn descriptors of an [Entry], in bytes.
const maxWithdrawn = 1 << 20

// Update records now as the last known handshake, and stores it if it differs from the previous one. The tools of the
// first handshake are accepted. Tools that a running extension announces are accepted too, unless one alters an
// earlier tool, directly or by removing it and announcing it again; [Known.Changes] reports other changes. If storing
// fails, now holds for this process only, and the error says why.
func (k *Known) Update(now *Entry, announced bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	last := k.last
	k.last = now
	if last == nil {
		return k.cache.Store(k.id, now)
	}
	now.judge(last, announced)
	if len(tools.Diff(last.Handshake.Tools, now.Handshake.Tools)) == 0 && last.sameButTools(now) {
		return nil
	}
	return k.cache.Store(k.id, now)
}

// judge sets the accepted and withdrawn tools of e, which follows last.
func (e *Entry) judge(last *Entry, announced bool) {
	offered := make(map[string]protocol.Tool, len(e.Handshake.Tools))
	for _, t := range e.Handshake.Tools {
		offered[t.Name] = t
	}
	isOffered := func(t protocol.Tool) bool { _, ok := offered[t.Name]; return ok }
	e.Accepted = last.Accepted
	e.Withdrawn = slices.DeleteFunc(slices.Clone(last.Withdrawn), isOffered)
	if e.Accepted == nil {
		back := slices.DeleteFunc(slices.Clone(last.Withdrawn), func(t protocol.Tool) bool { return !isOffered(t) })
		before := append(append([]protocol.Tool{}, last.Handshake.Tools...), back...) // never nil
		gone := slices.Concat(e.Withdrawn, slices.DeleteFunc(slices.Clone(last.Handshake.Tools), isOffered))
		if announced && !alters(before, offered) && sizeOf(gone) <= maxWithdrawn {
			e.Withdrawn = gone
		} else {
			e.Accepted = before
		}
	}
	if len(e.changes()) == 0 {
		e.Accepted = nil
	}
}

// alters reports whether a tool of before has changed in now. It looks at all tools, while [tools.Diff] stops after
// some changes.
func alters(before []protocol.Tool, now map[string]protocol.Tool) bool {
	return slices.ContainsFunc(before, func(t protocol.Tool) bool {
		after, ok := now[t.Name]
		return ok && len(tools.Diff([]protocol.Tool{t}, []protocol.Tool{after})) > 0
	})
}

func sizeOf(list []protocol.Tool) (bytes int) {
	for _, t := range list {
		bytes += len(t.Raw)
	}
	return bytes
}
