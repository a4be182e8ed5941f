package gateway

import (
	"crypto/sha256"
	"sync"

	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/protocol"
)

// searchLists are the lists of search sessions, as hashes. They seldom change, though the tools that can be found
// do.
type searchLists struct {
	mu sync.Mutex // guards of
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
