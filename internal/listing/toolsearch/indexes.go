package toolsearch

import (
	"sync"
	"sync/atomic"

	"github.com/exthost/exthost/tools"
)

// Indexes are the indexes of one snapshot: of all tools, and of each toolset. Each is built at its first search.
// Indexes is safe for concurrent use.
type Indexes struct {
	describe func(extension string) string

	mu    sync.Mutex // guards slots
	slots map[string]*slot
}

// slot holds the index of a toolset, "" for all tools.
type slot struct {
	making sync.Mutex            // held while the index is built
	made   atomic.Pointer[Index] // may be of an earlier catalog until the next search
}

// NewIndexes returns indexes that reuse those of an earlier snapshot, nil if there is none. describe returns the
// description of an extension. has reports whether a toolset still exists.
func NewIndexes(describe func(extension string) string, has func(toolset string) bool, before *Indexes) *Indexes {
	x := &Indexes{describe: describe, slots: make(map[string]*slot)}
	if before == nil {
		return x
	}
	before.mu.Lock()
	defer before.mu.Unlock()
	for toolset, last := range before.slots {
		if made := last.made.Load(); made != nil && has(toolset) {
			x.slot(toolset).made.Store(made)
		}
	}
	return x
}

// slot returns the slot of a toolset.
func (x *Indexes) slot(toolset string) *slot {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.slots[toolset] == nil {
		x.slots[toolset] = new(slot)
	}
	return x.slots[toolset]
}

// Of returns the index of a toolset, whose catalog is given.
func (x *Indexes) Of(toolset string, catalog *tools.Catalog) *Index {
	s := x.slot(toolset)
	s.making.Lock()
	defer s.making.Unlock()
	index := s.made.Load()
	if index == nil || !index.Of(catalog) {
		index = New(catalog, x.describe, index)
		s.made.Store(index)
	}
	return index
}
