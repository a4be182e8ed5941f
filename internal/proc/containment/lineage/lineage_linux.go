package lineage

import (
	"bytes"
	"cmp"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/proc/containment/sweep"
)

// own describes this process before it started its first child.
var own = sync.OnceValue(func() process {
	p, _ := read(os.Getpid())
	return p
})

// unfiltered is set once the seccomp filter that marks children could not be installed.
var unfiltered atomic.Bool

// Unfiltered notes that a child lacks the seccomp filter that marks it, so that [Of] proves less.
func Unfiltered() { unfiltered.Store(true) }

// marked reports whether p has the mark of some host's child.
func (p process) marked() bool { return sweep.Level(p.limit) < sweep.Level(own().limit) }

// restricted reports whether p has no_new_privs as a mark. That counts only if children may lack
// the regular mark.
func (p process) restricted() bool {
	switch {
	case !late.Load() && sweep.OwnMarks() != (sweep.Marks{}), !p.noNewPrivs:
		return false
	case !own().noNewPrivs, unfiltered.Load(), p.filters < 0:
		return true
	}
	return p.filters > own().filters
}

// maxDepth bounds the ancestors that [Of] looks at.
const maxDepth = 1000

// Of tells how the process pid is related to the children of hosts. This process itself is unrelated, and so are the
// processes that it started without a mark.
func Of(pid int) Relation {
	if pid == os.Getpid() {
		return Unrelated
	}
	first, err := read(pid)
	switch {
	case err != nil:
		return Unknown
	case first.marked():
		return Descendant
	case !first.restricted() && !privileged.Load():
		return Unrelated
	}
	for p, depth := first, 0; depth < maxDepth; depth++ {
		cookie, err := p.hasCookie()
		switch {
		case p.pid == os.Getpid() || cookie:
			return Descendant
		case file.Exhausted(err):
			return Unknown
		case p.pid == 1:
			return first.orphan()
		case p.parent == 0: // its parent is outside the pid namespace; the parent of a descendant never is
			return Unrelated
		}
		if p, err = p.up(); err != nil {
			return Unknown
		}
	}
	return Unknown
}

// orphan returns the relation of a process whose ancestors prove nothing, as it was reparented.
func (p process) orphan() Relation {
	if p.restricted() {
		return Unknown
	}
	return Unrelated // at worst, it descends from a child that may gain privileges
}

// up returns the parent of p; an error if p has ended or its parent kept changing.
func (p process) up() (process, error) {
	for range 10 {
		parent, missing := read(p.parent)
		now, err := read(p.pid)
		if err != nil || now.start != p.start {
			return parent, cmp.Or(err, fs.ErrNotExist)
		}
		if missing == nil && now.parent == p.parent {
			return parent, nil
		}
		p = now // was reparented
	}
	return p, errIncomplete
}

// maxEnviron bounds how much of an environment is read: a process can present its whole memory as its environment.
const maxEnviron = 8 << 20

// hasCookie reports whether the environment of p has the mark of a child of this process. It is false if the
// environment cannot be read.
func (p process) hasCookie() (bool, error) {
	f, err := os.Open(p.file("environ"))
	if err != nil {
		return false, err
	}
	defer f.Close()
	environ, _ := io.ReadAll(io.LimitReader(f, maxEnviron))
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		if marks, ok := bytes.CutPrefix(kv, []byte(sweep.CookieVar+"=")); ok {
			return bytes.Contains(marks, []byte(ID)), nil
		}
	}
	return false, nil
}

// Nested reports whether the process pid is in a nested pid namespace. visible is false if that cannot be read.
func Nested(pid int) (nested, visible bool) {
	p, err := read(pid)
	return p.nested, err == nil
}
