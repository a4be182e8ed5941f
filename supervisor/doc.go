// Package supervisor keeps one named thing alive: one instance, N, or one per
// key, at once or on demand, under a restart budget, a circuit breaker and an
// admission bound.
//
// A [Group] runs its instances in slots. A slot runs at most one instance at a
// time and moves between these states:
//
//	        start          ready
//	Idle ─────────→ Spawning ───→ Ready ──┐ stop, restart, idle
//	  ↑  ↑             ↑ │ error    │ error ↓
//	  │  └ idle        │ ↓          ↓     Draining ──→ Idle, Spawning or Shutdown
//	  │                Restarting ←─┘
//	  │                  │ budget spent, or ErrPermanent
//	Restart ←────────  Failed
//
// A call takes an instance with [Group.Acquire] and gives it back with the
// outcome; that one function is the admission bound, the queue, the breaker and
// the on-demand start. What was acquired stays tied to the instance it was
// acquired on: if that dies, the call gets its error from the instance, and its
// slot's next instance starts with nothing in flight and a fresh breaker.
//
// Every change of a slot or breaker is an [Event], delivered in order to one
// function; [Group.Status] is the snapshot of the same facts.
package supervisor
