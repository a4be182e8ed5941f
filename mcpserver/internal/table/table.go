// Package table holds a bounded number of values by unguessable keys.
package table

import "sync"

// Table is a table of values. Its methods may be called by many goroutines at once.
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

// Remove removes v. It returns false if v is not there, because somebody else has removed it.
func (t *Table[V]) Remove(key string, v V) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if held, ok := t.byKey[key]; !ok || held != v {
		return false
	}
	delete(t.byKey, key)
	return true
}
