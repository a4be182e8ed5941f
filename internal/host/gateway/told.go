package gateway

import (
	"crypto/sha256"
	"reflect"
	"sync"

	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/protocol"
)

// told is the state of each toolset's lists as clients of the toolset know them: at the time of the last notification
// or, before any, when the first client came.
type told struct {
	mu sync.Mutex // guards the field below
	of map[string]known
}

// known is the state of a toolset's lists.
type known struct {
	list    uint64 // the generation of the list of tools
	defined toolset.Definition
}

func shownBy(now *snapshot.Snapshot, view *toolset.View, name string) known {
	return known{view.Tools(now.Catalog).ListGeneration(), now.Config.Toolsets[name]}
}

// attached records what a new session sees.
func (t *told) attached(now *snapshot.Snapshot, view *toolset.View, name string) {
	if view == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, noted := t.of[name]; noted {
		return
	}
	if t.of == nil {
		t.of = make(map[string]known)
	}
	t.of[name] = shownBy(now, view, name)
}

// changed returns the methods of the lists that have changed, by toolset, and forgets toolsets without sessions.
func (t *told) changed(now *snapshot.Snapshot, sessions []*protocol.Session) map[string][]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	other, next := make(map[string][]string), make(map[string]known)
	for _, s := range sessions {
		view, err := now.View(s)
		if err != nil || view == nil {
			continue
		}
		is, was := shownBy(now, view, s.Toolset), t.of[s.Toolset]
		next[s.Toolset] = is
		switch {
		case !reflect.DeepEqual(is.defined, was.defined):
			other[s.Toolset] = []string{
				protocol.MethodToolsListChanged,
				protocol.MethodPromptsListChanged,
				protocol.MethodResourcesListChanged,
			}
		case is.list != was.list:
			other[s.Toolset] = []string{protocol.MethodToolsListChanged}
		}
	}
	t.of = next
	return other
}

// searchLists are the lists of search sessions, as hashes. These lists seldom change, unlike the tools that a search
// finds.
type searchLists struct {
	mu sync.Mutex // guards the field below
	of map[*protocol.Session][sha256.Size]byte
}

// note records the current list of a session, and reports whether it is unchanged.
func (l *searchLists) note(now *snapshot.Snapshot, s *protocol.Session) (same bool) {
	list, searches := now.SearchList(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !searches {
		delete(l.of, s)
		return false
	}
	h := sha256.New()
	for _, e := range list {
		h.Write(e.Descriptor)
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	was, known := l.of[s]
	if l.of == nil {
		l.of = make(map[*protocol.Session][sha256.Size]byte)
	}
	l.of[s] = sum
	return known && was == sum
}

func (l *searchLists) drop(s *protocol.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, s)
}
