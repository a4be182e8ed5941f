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
//	Restart ←────────  Failed ──→ Spawning, after a Cooldown or a Trial
//
// A call takes an instance with [Group.Acquire] and gives the instance back with
// the outcome. Acquire applies the admission bound, the queue and the breaker, and
// starts instances on demand. A call belongs to the instance that it acquired: when
// that instance dies, the call fails with the error of that instance, and the next
// instance of the slot begins with no calls in flight and a closed breaker.
//
// Every change of a slot or breaker is an [Event], delivered in order to one
// function; [Group.Status] is a snapshot of the same data.
package supervisor
