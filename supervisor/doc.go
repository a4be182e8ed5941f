// Package supervisor keeps a service running: as one instance, as N, or as one per key, eagerly or on demand, under a
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
// A call gets an instance with [Group.Acquire], and releases it with its outcome. Acquire applies the limit of calls,
// the queue and the breaker, and starts instances on demand. A call belongs to the instance that it acquired: if that
// instance dies, the call fails, and the slot's next instance begins with no calls in flight and a closed breaker.
//
// Every change of a slot or breaker is an [Event], delivered in order to one function. [Group.Status] returns the
// current state.
package supervisor
