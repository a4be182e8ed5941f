// Package lineage tells whether a process descends from a child that a host has started, this one or
// another, also when it hides that.
//
// A process can leave its session, clear its environment, lose its parents and outlive its host, but on
// Linux not what the kernel inherits for good: each child has the mark of package sweep from its first
// instruction on. Who has it takes no part in operating a host, whether its own host still runs or not.
//
// Where children cannot be marked so, because the system forbids to trace them or has no such limits,
// no_new_privs is the mark, which children have too and no process gets rid of. Where this process has that
// itself, as in many containers, each child has one seccomp filter more than it, which permits everything.
// Such a process may be somebody else's: nothing proves it, unless a process outside of this pid namespace
// has started it.
//
// On macOS the ancestors alone are known, and on other systems nothing: see [Of].
package lineage

import (
	"crypto/rand"
	"encoding/hex"
	"sync/atomic"
)

// ID begins the marks of all children of this process.
var ID = newID()

func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// Relation is what is known of a process.
type Relation int

const (
	// Unknown: it may be a descendant. Its process has ended, or is hidden, or it has
	// no_new_privs as children have that could not be marked.
	Unknown Relation = iota
	// Descendant: it descends from a child of this process or of another host.
	Descendant
	// Unrelated: it does not.
	Unrelated
)

// privileged is true once a child was started that may gain privileges.
var privileged atomic.Bool

// Privileged notes that a child is started which may gain privileges, and by them get rid of its mark. From
// then on a process without the mark is a descendant if its ancestors or its environment say so.
func Privileged() { privileged.Store(true) }

// late is true once a child has started that did not have its mark from its first instruction on.
var late atomic.Bool

// MarkedLate notes that a child got its mark after its start or not at all: what it started before has
// none. From then on no_new_privs is a mark too.
func MarkedLate() { late.Store(true) }
