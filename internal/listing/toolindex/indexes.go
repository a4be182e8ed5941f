package toolindex

import (
	"sync"
	"sync/atomic"

	"github.com/exthost/exthost/tools"
)

// Indexes are the indexes over the tools of one snapshot: of all of them, and of each toolset.
// Each is made when it is searched first. They are safe for concurrent use.
type Indexes struct {
	describe func(extension string) string

	mu    sync.Mutex // guards slots
	slots map[string]*slot
}

// slot holds the index of a toolset, "" for all tools.
type slot struct {
	making sync.Mutex            // held while the index is made
	made   atomic.Pointer[Index] // of an earlier catalog until it is searched again
}

// NewIndexes returns indexes that follow those of an earlier snapshot, nil for none. describe
// returns what an extension says of itself. has reports whether there still is a toolset.
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

// Of returns the index over catalog, which is that of a toolset.
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
