package builtin

import (
	"cmp"
	"container/list"

	"github.com/exthost/exthost/governance"
)

// maxEntries bounds the entries of each counting policy. The least recently used entry is
// removed, so its counters start anew.
const maxEntries = 10_000

// lru maps keys to state and removes the least recently used. The lock of the owner guards
// it. The zero value is empty.
type lru[K comparable, V any] struct {
	byKey map[K]*list.Element // holds *lruEntry[K, V]
	order list.List           // the most recently used first
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
}

// get returns the state of key, a zero V when it is new.
func (r *lru[K, V]) get(key K) *V {
	if r.byKey == nil {
		r.byKey = make(map[K]*list.Element)
	}
	e := r.byKey[key]
	if e == nil {
		if len(r.byKey) == maxEntries {
			oldest := r.order.Back()
			delete(r.byKey, oldest.Value.(*lruEntry[K, V]).key)
			r.order.Remove(oldest)
		}
		e = r.order.PushFront(&lruEntry[K, V]{key: key})
		r.byKey[key] = e
	}
	r.order.MoveToFront(e)
	return &e.Value.(*lruEntry[K, V]).value
}

// sessionKey identifies a session. Callers without a session are distinguished by name and client
// instance.
type sessionKey struct{ caller, session string }

func keyOf(x *governance.Exchange) sessionKey { return sessionKey{x.Caller, sessionOf(x)} }

func sessionOf(x *governance.Exchange) string { return cmp.Or(x.Session, x.Instance) }
