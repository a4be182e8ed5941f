package mcppolicy

import (
	"container/list"
	"encoding/json"
	"sync"
)

// maxStates bounds what all exchanges under way may keep, in bytes.
const maxStates = 16 << 20

// states keep what a plugin wants to find again in the response flow of an
// exchange it has seen the request of. Of exchanges that never get there, and of
// too many at once, the oldest is forgotten.
type states struct {
	mu    sync.Mutex
	byID  map[string]*list.Element
	byAge list.List // of state, oldest first
	size  int
}

type state struct {
	id  string
	raw json.RawMessage
}

// cost is what it takes, roughly.
func (s state) cost() int { return len(s.id) + len(s.raw) + 256 }

// put keeps raw for id, which is one exchange's alone.
func (s *states) put(id string, raw json.RawMessage) {
	if id == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = make(map[string]*list.Element)
	}
	s.dropLocked(s.byID[id])
	it := state{id, raw}
	s.byID[id] = s.byAge.PushBack(it)
	s.size += it.cost()
	for s.size > maxStates {
		s.dropLocked(s.byAge.Front())
	}
}

// take returns what was put for id, nil when there is nothing, and forgets it.
func (s *states) take(id string) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropLocked(s.byID[id])
}

func (s *states) dropLocked(e *list.Element) json.RawMessage {
	if e == nil {
		return nil
	}
	it := s.byAge.Remove(e).(state)
	delete(s.byID, it.id)
	s.size -= it.cost()
	return it.raw
}
