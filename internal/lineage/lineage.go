// Package lineage tells whether a process descends from a child that this process has
// started for somebody else, also when it hides that.
//
// A process can leave its session, clear its environment and lose its parents, but on Linux
// not what the kernel inherits for good: children are started with no_new_privs, which no
// process gets rid of. So a process without it is no descendant. Where this process has
// no_new_privs itself, as in many containers, each child has one seccomp filter more than
// it, which permits everything. A process with the mark may still be somebody else's: it is
// so if one of its ancestors is proven to be.
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
	// Unknown: it may be a descendant. Its process has ended, or is hidden, or it has the
	// mark and its ancestors prove nothing.
	Unknown Relation = iota
	// Descendant: it descends from a child of this process.
	Descendant
	// Unrelated: it does not.
	Unrelated
)

// unmarked is true once a child was started without the mark.
var unmarked atomic.Bool

// Unmarked notes that a child is started without the mark, because it may gain privileges.
// From then on a process without the mark is taken for a descendant only if its ancestors
// or its environment say so.
func Unmarked() { unmarked.Store(true) }
