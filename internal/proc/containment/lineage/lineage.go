// Package lineage tells whether a process descends from a child of this host or of another one, even if it tries to
// hide that.
//
// A process can leave its session, clear its environment, lose its parents and outlive its host. On Linux it cannot get
// rid of the mark that each child has from its first instruction on; see package sweep. A process with a mark must not
// operate a host, whether or not the host that started it still runs.
//
// Where children cannot be marked, because tracing is forbidden or the system lacks such limits,
// no_new_privs serves as the mark: children have it, and it cannot be cleared. If this process has
// no_new_privs itself, as in many containers, each child gets one more seccomp filter, which
// permits everything. A process with this mark may still be unrelated to any child, unless its
// ancestors show that it was started from outside this pid namespace.
//
// On macOS only the ancestors of a process are known, and on other systems nothing; see [Of].
package lineage

import (
	"crypto/rand"
	"encoding/hex"
	"sync/atomic"
)

// ID is the common prefix of the environment marks of this process's children.
var ID = newID()

func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// Relation tells how a process is related to the children of hosts.
type Relation int

const (
	// Unknown: it may be a descendant. It has ended, is hidden, or has no_new_privs while some children could not be
	// marked otherwise.
	Unknown Relation = iota
	// Descendant: it descends from a child of this or of another host.
	Descendant
	// Unrelated: it does not descend from any host's child.
	Unrelated
)

// NoDescriptor says why a process could not be looked at, and what to do.
const NoDescriptor = "no descriptor of the host is left to look at it; end some clients, or raise the hard limit of " +
	"the host (ulimit -Hn, or LimitNOFILE of systemd) and start it again"

// privileged is set once a child was started that may gain privileges.
var privileged atomic.Bool

// Privileged notes that a child was started which may gain privileges, and so get rid of its mark. From then on, the
// ancestors and the environment of unmarked processes are examined too.
func Privileged() { privileged.Store(true) }

// late is set once a child was started without its mark in place.
var late atomic.Bool

// MarkedLate notes that a child got its mark after its start or not at all, so that processes that
// the child had started before have no mark. From then on, no_new_privs counts as a mark too.
func MarkedLate() { late.Store(true) }
