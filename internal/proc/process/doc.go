// Package process manages child processes: it resolves a command, filters the
// environment, starts the child in its own session, reads its stderr line by line and
// makes sure that the child and its descendants end.
//
//	Resolve, LaunchScript                      the command line
//	Environ, Expand                            the environment
//	        │
//	      Start ──> Process ── Stdin, Stdout   pipes that belong to the caller
//	                   │   └── stderr ──────── lines with levels, and a tail
//	                   └────── Done, Exit      from wait, not from EOF
//	Contain ──> Containment                    kills the descendants as well
//
// # Exit
//
// A child has exited when wait reports the exit. An end of file on its stdout does not
// prove it, because the child may have closed stdout and run on; neither does a missing
// end of file prove the opposite, because a grandchild may hold the pipe. On Linux the
// exit is seen before the pid is free: the child's process group is killed first, and
// then the child is reaped, so no signal can hit another process with the same pid.
//
// # Containment
//
// On Linux each child has a mark from its first instruction on that its descendants inherit and cannot get
// rid of: a hard limit, see package sweep; and another in its environment (EXTHOST_COOKIE), for
// systems without such limits and for hosts inside of extensions. After the exit of the child, and before it
// is reaped, a sweep over /proc kills every process that is in the child's session, has a mark, or descends
// from such a process. So daemons that left the process group end with their child. One
// guardian process per host holds the reading end of a pipe. When the host ends, for any
// reason, the pipe ends, and the guardian sweeps for all children. A process is
// identified by its pid and start time, and signalled through a handle, so that a reused
// pid is never killed.
//
// Some processes escape: one that lowers its own limit, and has left the session, cleared its environment
// and lost its ancestors before the sweep; one that changed its user; one that forks and exits faster
// than the sweep finds it; all, if the guardian is killed and then the host, until the next host of
// the directory ends them. The mark still keeps them from operating any host, see package lineage. A pid
// namespace contains these as well.
//
// # Isolation
//
// An isolated child runs in its own pid namespace, with a mount namespace for its /proc.
// Without root rights both are made in a user namespace, in which ids keep their numbers
// and sudo does not work. The first process there is an init, which is this program
// again, see package nsinit: it starts the child, reaps orphans and holds a socket to the host. When the
// child or the host ends, the init ends, and the kernel kills every process of the
// namespace: no process can leave it. Isolation costs a second small process and some
// milliseconds at the start of the child.
//
// Limits are set on a child before its first instruction. No child writes core dumps, and
// the kernel's OOM killer prefers children to the host.
//
// The parent-death signal of Linux is not used: it fires when the thread that started the
// child ends, and in a Go program threads end while the host goes on. A child that asks for
// the signal itself gets it with the host: the launcher's thread does not end before.
//
// # Privileges
//
// On Linux a child has no_new_privs, and as root a part of the capabilities. Both are
// attributes of the thread that starts it, so children are started on one thread of their
// own, which has given up the rest for good; see launcher. The init of a pid namespace mounts
// /proc first and then gives them up on its main thread.
package process
