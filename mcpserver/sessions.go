package mcpserver

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// sessions are the conversations held over HTTP, and a count of all that occupies
// the server for longer than a request.
type sessions struct {
	limit int

	mu    sync.RWMutex
	taken int
	byID  map[string]*conversation
}

func newSessions(limit int) *sessions {
	return &sessions{limit: limit, byID: make(map[string]*conversation)}
}

// take takes one of the places there are; give gives it back.
func (s *sessions) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.limit {
		return false
	}
	s.taken++
	return true
}

// evict ends the session that has been idle longest, one of caller's own if there is
// any, and reports whether there was one: who opens many sessions loses his own before
// others lose theirs. The client learns that it is gone and initializes anew.
func (s *sessions) evict(caller string) bool {
	var oldest *conversation
	var since time.Time
	for _, c := range s.all() {
		idle, ok := c.idleSince()
		if !ok {
			continue
		}
		if own, has := c.caller == caller, oldest != nil && oldest.caller == caller; oldest == nil || own && !has || own == has && idle.Before(since) {
			oldest, since = c, idle
		}
	}
	if oldest != nil {
		oldest.end(errEnded)
	}
	return oldest != nil
}

func (s *sessions) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
}

func (s *sessions) add(c *conversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[c.id] = c
}

// remove forgets c and gives its place back.
func (s *sessions) remove(c *conversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, c.id)
	s.taken--
}

// get returns the conversation id names if it is caller's own and of that front: to
// anybody else, and elsewhere, it does not exist.
func (s *sessions) get(id, caller, front string) *conversation {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c := s.byID[id]; c != nil && c.caller == caller && c.front == front {
		return c
	}
	return nil
}

func (s *sessions) all() []*conversation {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Values(s.byID))
}
