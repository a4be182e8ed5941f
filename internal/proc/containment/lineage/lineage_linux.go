package lineage

import (
	"bytes"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/exthost/exthost/internal/proc/containment/sweep"
)

// own is this process, as it was before it started the first child.
var own = sync.OnceValue(func() process {
	p, _ := read(os.Getpid())
	return p
})

// unfiltered is true once the filter could not be installed that is the mark of a process
// with no_new_privs.
var unfiltered atomic.Bool

// Unfiltered tells that a child lacks that filter, so that [Of] proves less.
func Unfiltered() { unfiltered.Store(true) }

// marked reports whether p has the mark of a child of any host.
func (p process) marked() bool { return sweep.Level(p.limit) < sweep.Level(own().limit) }

// restricted reports whether p has the other mark, which counts where the first may be missing.
func (p process) restricted() bool {
	switch {
	case !late.Load() && sweep.OwnMarks() != (sweep.Marks{}), !p.noNewPrivs:
		return false
	case !own().noNewPrivs, unfiltered.Load(), p.filters < 0:
		return true
	}
	return p.filters > own().filters
}

// maxDepth bounds the ancestors that are looked at.
const maxDepth = 1000

// Of tells how the process pid is related to the children of hosts. This process itself,
// and what it has started by other means than as a child with the mark, are unrelated.
func Of(pid int) Relation {
	if pid == os.Getpid() {
		return Unrelated
	}
	first, ok := read(pid)
	switch {
	case !ok:
		return Unknown
	case first.marked():
		return Descendant
	case !first.restricted() && !privileged.Load():
		return Unrelated
	}
	for p, depth := first, 0; depth < maxDepth; depth++ {
		switch {
		case p.pid == os.Getpid() || p.hasCookie():
			return Descendant
		case p.pid == 1:
			return first.orphan()
		case p.parent == 0: // its parent is outside of the pid namespace, where no descendant has one
			return Unrelated
		}
		if p, ok = p.up(); !ok {
			return Unknown
		}
	}
	return Unknown
}

// orphan is the relation of a process whose ancestors prove nothing: an orphan gets a new parent.
func (p process) orphan() Relation {
	if p.restricted() {
		return Unknown
	}
	return Unrelated // a descendant of a child that may gain privileges, at worst
}

// up returns the parent of p, if it was the parent all the time while it was read.
func (p process) up() (process, bool) {
	for range 10 {
		parent, ok := read(p.parent)
		now, alive := read(p.pid)
		if !alive || now.start != p.start {
			return parent, false
		}
		if ok && now.parent == p.parent {
			return parent, true
		}
		p = now // an orphan by now
	}
	return p, false
}

// maxEnviron bounds the part of an environment that is read. A process may have the kernel show
// its whole memory as that.
const maxEnviron = 8 << 20

// hasCookie reports whether the environment of p names a child of this process. The
// environment of many processes cannot be read.
func (p process) hasCookie() bool {
	f, err := os.Open(p.file("environ"))
	if err != nil {
		return false
	}
	defer f.Close()
	environ, _ := io.ReadAll(io.LimitReader(f, maxEnviron))
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		if marks, ok := bytes.CutPrefix(kv, []byte(sweep.CookieVar+"=")); ok {
			return bytes.Contains(marks, []byte(ID))
		}
	}
	return false
}

// Nested reports whether the process is in a pid namespace below that of this one, or
// cannot be seen from here.
func Nested(pid int) bool {
	p, ok := read(pid)
	return !ok || p.nested
}
