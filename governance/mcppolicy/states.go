package mcppolicy

import (
	"container/list"
	"encoding/json"
	"sync"
)

// maxStates bounds the contexts of all exchanges in progress, in bytes.
const maxStates = 16 << 20

// states keep the plugin's context of each exchange from the request to the response flow. Beyond
// maxStates the oldest are removed, because some exchanges never have a response.
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

// cost is the approximate memory use.
func (s state) cost() int { return len(s.id) + len(s.raw) + 256 }

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
