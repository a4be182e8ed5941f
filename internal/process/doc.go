// Package process is the hygiene of child processes: it resolves a command,
// filters the environment, starts the child in a session of its own, reads its
// stderr line by line and makes sure that it ends.
//
//	Resolve, LaunchScript, SplitCommand        what to run
//	Environ, Expand                            with which variables
//	        │
//	      Start ──> Process ── Stdin, Stdout   pipes that belong to the caller
//	                   │   └── stderr ──────── lines with levels, and a tail
//	                   └────── Done, Exit      seen from wait, never from EOF
//
// # Death
//
// A child is dead when wait says so. End of file on its stdout proves nothing
// (the child may have closed it and live on), and its absence neither (a
// grandchild may hold it). On Linux the exit is seen while the pid is still
// taken, the child's process group is killed, and only then is the child
// reaped, so no signal can ever hit a stranger who got the same pid.
//
// # What it does not do
//
// The parent-death signal of Linux is never used: it fires when the thread that
// started the child ends, which in a Go program says nothing about the host.
// A grandchild that leaves the process group (setsid, setpgid) survives, and so
// do all children when the host itself is killed with SIGKILL.
package process
