package descriptors

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Pending is the difference of one tool from the version that the operator accepted last.
type Pending struct {
	Tool    string // the extension's own tool name
	Changes []tools.Change
	Digest  string // of the descriptors before and now
}

// Gone reports whether the tool was removed.
func (p *Pending) Gone() bool { return p.Changes[0].Field == "" && p.Changes[0].Old != "" }

// pending returns the tools that differ from the accepted ones, by name.
func (e *Entry) pending() (list []Pending) {
	if e == nil || e.Accepted == nil {
		return nil
	}
	before, after := byName(e.Accepted), byName(e.Handshake.Tools)
	add := func(name string) {
		if changes := tools.Diff(before[name], after[name]); len(changes) > 0 {
			list = append(list, Pending{name, changes, digest(before[name], after[name])})
		}
	}
	for name := range after {
		add(name)
	}
	for name := range before {
		if after[name] == nil {
			add(name)
		}
	}
	slices.SortFunc(list, func(a, b Pending) int { return cmp.Compare(a.Tool, b.Tool) })
	return list
}

func byName(list []protocol.Tool) map[string][]protocol.Tool {
	names := make(map[string][]protocol.Tool, len(list))
	for _, t := range list {
		names[t.Name] = append(names[t.Name], t)
	}
	return names
}

// digest identifies the previous and the current descriptor of a tool.
func digest(before, after []protocol.Tool) string {
	h := sha256.New()
	for _, list := range [][]protocol.Tool{before, after} {
		for _, t := range list {
			h.Write(t.Raw)
			h.Write([]byte{0}) // not part of any JSON
		}
		h.Write([]byte{1})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Pending returns the difference of each tool from the accepted one, by name.
func (k *Known) Pending() []Pending { return k.Last().pending() }

// Accept accepts the selected tools as they are now, and reports whether that changed anything. If storing fails, the
// change holds for this process only, and the error says why.
func (k *Known) Accept(selected func(Pending) bool) (changed bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := slices.DeleteFunc(k.last.pending(), func(p Pending) bool { return !selected(p) })
	if len(list) == 0 {
		return false, nil
	}
	isOf := func(t protocol.Tool) bool {
		return slices.ContainsFunc(list, func(p Pending) bool { return p.Tool == t.Name })
	}
	now := *k.last
	now.Accepted = slices.DeleteFunc(append([]protocol.Tool{}, k.last.Accepted...), isOf) // never nil
	for _, t := range k.last.Handshake.Tools {
		if isOf(t) {
			now.Accepted = append(now.Accepted, t)
		}
	}
	if len(now.changes()) == 0 {
		now.Accepted = nil
	}
	k.last = &now
	return true, k.cache.Store(k.id, k.last)
}
