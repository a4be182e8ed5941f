package mcpserver

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// sessions is the table of HTTP sessions. Sessions and subscriptions share a limited number of slots.
type sessions struct {
	limit int

	mu   sync.RWMutex
	used int // slots
	byID map[string]*clientSession
}

// acquire takes a slot, or returns false if there is none.
func (s *sessions) acquire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used >= s.limit {
		return false
	}
	s.used++
	return true
}

func (s *sessions) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
}

// evict ends the session that has been idle longest, and reports whether there was one. Sessions of the caller go
// first, so that a caller with many sessions loses its own. The evicted client gets 404 and initializes again.
func (s *sessions) evict(caller string) bool {
	var oldest *clientSession
	var since time.Time
	for _, c := range s.all() {
		idle, ok := c.idleSince()
		if !ok {
			continue
		}
		own, has := c.requester.caller == caller, oldest != nil && oldest.requester.caller == caller
		if oldest == nil || own && !has || own == has && idle.Before(since) {
			oldest, since = c, idle
		}
	}
	if oldest != nil {
		oldest.end(errEnded)
	}
	return oldest != nil
}

func (s *sessions) add(c *clientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[c.id] = c
}

// remove removes c and frees its slot.
func (s *sessions) remove(c *clientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, c.id)
	s.used--
}

// get returns the session with the given id, or nil if it has ended or belongs to another caller, toolset or extension.
func (s *sessions) get(id string, by requester, extension string) *clientSession {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c := s.byID[id]; c != nil && c.requester.caller == by.caller && c.requester.toolset == by.toolset &&
		c.extension == extension && c.attached.Err() == nil { // a caller's access ends before onEnd has run
		return c
	}
	return nil
}

func (s *sessions) all() []*clientSession {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Values(s.byID))
}
