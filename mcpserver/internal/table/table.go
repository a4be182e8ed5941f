// Package table implements a bounded map that is safe for concurrent use.
package table

import "sync"

// Table is a bounded map, safe for concurrent use.
type Table[V comparable] struct {
	limit int

	mu    sync.Mutex
	byKey map[string]V
}

// New returns an empty table of at most limit values.
func New[V comparable](limit int) *Table[V] {
	return &Table[V]{limit: limit, byKey: make(map[string]V)}
}

// Add adds v, or returns false if the table is full.
func (t *Table[V]) Add(key string, v V) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byKey) >= t.limit {
		return false
	}
	t.byKey[key] = v
	return true
}

// Get returns the value of a key, or the zero value.
func (t *Table[V]) Get(key string) V {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[key]
}

// Remove removes v, and returns false if key no longer has that value.
func (t *Table[V]) Remove(key string, v V) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if held, ok := t.byKey[key]; !ok || held != v {
		return false
	}
	delete(t.byKey, key)
	return true
}
