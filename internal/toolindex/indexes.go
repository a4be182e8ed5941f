package toolindex

import (
	"sync"

	"github.com/exthost/exthost/tools"
)

// Indexes are the indexes over the tools of one snapshot: of all of them, and of each toolset.
// Each is made when it is searched first. They are safe for concurrent use.
type Indexes struct {
	describe func(extension string) string

	mu   sync.Mutex
	made map[string]*Index // by toolset, "" for all tools; of an earlier catalog until it is searched again
}

// NewIndexes returns indexes that follow those of an earlier snapshot, nil for none. describe
// returns what an extension says of itself. has reports whether there still is a toolset.
func NewIndexes(describe func(extension string) string, has func(toolset string) bool, before *Indexes) *Indexes {
	x := &Indexes{describe: describe, made: make(map[string]*Index)}
	if before == nil {
		return x
	}
	before.mu.Lock()
	defer before.mu.Unlock()
	for toolset, index := range before.made {
		if has(toolset) {
			x.made[toolset] = index
		}
	}
	return x
}

// Of returns the index over catalog, which is that of a toolset.
func (x *Indexes) Of(toolset string, catalog *tools.Catalog) *Index {
	x.mu.Lock()
	defer x.mu.Unlock()
	index := x.made[toolset]
	if index == nil || !index.Of(catalog) {
		index = New(catalog, x.describe, index)
		x.made[toolset] = index
	}
	return index
}
