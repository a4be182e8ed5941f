package builtin

import (
	"container/list"

	"github.com/exthost/exthost/governance"
)

// maxKept bounds what each counting policy remembers. Who was seen longest ago is
// forgotten first, and begins anew.
const maxKept = 10_000

// recent is the state of the keys that were seen last, guarded by its owner's lock.
// The zero value is empty.
type recent[K comparable, V any] struct {
	byKey map[K]*list.Element // of *kept[K, V]
	order list.List           // the latest first
}

type kept[K comparable, V any] struct {
	key   K
	value V
}

// get returns the state of key, new when it has none.
func (r *recent[K, V]) get(key K) *V {
	if r.byKey == nil {
		r.byKey = make(map[K]*list.Element)
	}
	e := r.byKey[key]
	if e == nil {
		if len(r.byKey) == maxKept {
			oldest := r.order.Back()
			delete(r.byKey, oldest.Value.(*kept[K, V]).key)
			r.order.Remove(oldest)
		}
		e = r.order.PushFront(&kept[K, V]{key: key})
		r.byKey[key] = e
	}
	r.order.MoveToFront(e)
	return &e.Value.(*kept[K, V]).value
}

// sessionKey names whose exchange it is. Callers without a session are told apart
// by name.
type sessionKey struct{ caller, session string }

func keyOf(x *governance.Exchange) sessionKey { return sessionKey{x.Caller, x.Session} }
