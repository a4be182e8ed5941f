// Package process is the hygiene of child processes: it resolves a command,
// filters the environment, starts the child in a session of its own, reads its
// stderr line by line and makes sure that it ends.
//
//	Resolve, LaunchScript                      what to run
//	Environ, Expand                            with which variables
//	        │
//	      Start ──> Process ── Stdin, Stdout   pipes that belong to the caller
//	                   │   └── stderr ──────── lines with levels, and a tail
//	                   └────── Done, Exit      seen from wait, never from EOF
//	Contain ──> Containment                    what else dies with it, and with us
//
// # Death
//
// A child is dead when wait says so. End of file on its stdout proves nothing
// (the child may have closed it and live on), and its absence neither (a
// grandchild may hold it). On Linux the exit is seen while the pid is still
// taken, the child's process group is killed, and only then is the child
// reaped, so no signal can ever hit a stranger who got the same pid.
//
// # Containment
//
// On Linux each child's environment has a mark (EXTHOST_COOKIE) that its
// descendants inherit. When the child is dead and not yet reaped, a look at /proc
// finds and kills what is in its session, bears its mark, or descends from what
// does: daemons that left the group die with their child. One guardian process
// for all children of a host holds the reading end of a pipe; when that ends,
// because this process has, the guardian does the same for all of them. A process
// is known by its pid and start time, and is signalled through a handle, so that
// a reused pid is nobody's death.
//
// What escapes: a process that has left the session, cleared its environment and
// lost its ancestors, all before the look; one that changed its user; one that
// keeps forking and leaving faster than it is found. A pid namespace holds these
// as well.
//
// # Isolation
//
// An isolated child runs in a pid namespace of its own (and a mount namespace for
// its /proc; who is not root makes them in a user namespace in which ids keep their
// numbers and sudo is of no use). The first process there is an init, again this
// program, that starts the child, buries its orphans and hears of our end over a
// socket. When the child or this process ends so does the init, and then the kernel
// kills every process of the namespace: nothing can leave it. A child that is not to
// be contained so costs nothing of this; one that is, a second small process and
// some milliseconds at its start.
//
// Limits are set on a child before its first instruction. All children give up
// core dumps and are offered to the kernel's OOM killer before the host.
//
// The parent-death signal of Linux is never used: it fires when the thread that
// started the child ends, which in a Go program says nothing about the host.
package process
