// Package supervisor keeps one named thing running: one instance, N, or one per key, eagerly or on demand, under a
// restart budget, a circuit breaker and a limit of concurrent calls.
//
// A [Group] runs its instances in slots. A slot runs at most one instance at a time and moves between these states:
//
//	        start          ready
//	Idle ─────────→ Spawning ───→ Ready ──┐ stop, restart, idle
//	  ↑  ↑             ↑ │ error    │ error ↓
//	  │  └ idle        │ ↓          ↓     Draining ──→ Idle, Spawning or Shutdown
//	  │                Restarting ←─┘
//	  │                  │ budget spent, or ErrPermanent
//	Restart ←────────  Failed ──→ Spawning, after a Cooldown or a Trial
//
// A call takes an instance with [Group.Acquire] and returns it with its outcome. Acquire applies the limit, the queue
// and the breaker, and starts instances on demand. A call belongs to the instance that it acquired: if that instance
// dies, the call fails, and the slot's next instance begins with no calls in flight and a closed breaker.
//
// Every change of a slot or breaker is an [Event], delivered in order to one function. [Group.Status] returns the
// current state.
package supervisor
