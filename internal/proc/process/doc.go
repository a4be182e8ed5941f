// Package process manages child processes: it resolves a command, filters the environment, starts the child in its own
// session, reads its stderr line by line, and makes sure that the child and its descendants end.
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
// A child has exited when wait says so. The end of its stdout proves nothing: a running child may have closed stdout,
// and a grandchild may hold the pipe after the child's exit. On Linux, the child's process group is killed before the
// child is reaped, so that no signal can hit another process with the same pid.
//
// # Containment
//
// On Linux each child has two marks, which its descendants inherit: a hard limit that they cannot get rid of, set
// before the first instruction (see package sweep), and one in its environment (EXTHOST_COOKIE), for systems without
// such limits and for hosts inside of extensions. Between the exit of the child and its reaping, a sweep over /proc
// kills every process that is in the child's session, has its mark, or descends from such a process. So daemons that
// left the process group end with their child. One guardian process per host holds the read end of a pipe. When the
// host ends, for any reason, the pipe closes, and the guardian sweeps for all children. Processes are identified by pid
// and start time, and signalled through a handle, so that a reused pid is never killed.
//
// Some processes escape: one that lowers its own limit, and left the session, cleared its
// environment and lost its ancestors before the sweep; one that changed its user; and one that
// forks and exits faster than the sweep. All escape if the guardian is killed and then the host,
// until the next host in the same directory ends them. Even then the mark keeps them from operating
// a host, see package lineage. A pid namespace contains all of these.
//
// A child that starts while no guardian runs has SIGKILL as its parent-death signal instead, so that at least the child
// itself ends with its host. Linux sends that signal when the thread that started the child ends, and Go programs end
// threads at any time; the launcher's thread therefore lives as long as its children. What the child starts does not
// get the signal, nor do children with NewPrivileges, processes that [Launch] starts, and a child that has changed its
// user or cleared the setting.
//
// # Isolation
//
// An isolated child runs in its own pid namespace, with a mount namespace for its /proc. Unless the host is root, both
// are created in a user namespace, in which ids keep their numbers and sudo does not work. The first process there is
// an init: this program again, see package helper. It starts the child, reaps orphans and holds a socket to the host.
// When the child or the host ends, the init ends, and the kernel kills every process of the namespace; none can leave
// it. Isolation costs a second small process and some milliseconds at the start of the child.
//
// Limits are set before the child's first instruction. No child writes core dumps, and the OOM killer prefers children
// to the host.
//
// # Privileges
//
// On Linux a child has no_new_privs, and as root only some capabilities. A child inherits both from
// the thread that starts it, so children are started on a thread that has given up the rest for
// good; see launcher. The init of a pid namespace mounts /proc before it gives up its privileges on
// its main thread.
package process
