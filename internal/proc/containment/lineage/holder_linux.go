package lineage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"

	"github.com/exthost/exthost/internal/file"
)

// OfSocket tells whether a socket, given by its inode and the uid of its creator, is held by a
// child or its descendants: [Descendant] if one of them holds it, [Unrelated] if only other
// processes do.
//
// The holder of a socket may be invisible: a process that hides its descriptors, as sshd does, a
// process outside this pid namespace, a unix socket with the descriptor in a queued message, or an
// io_uring. If no holder is visible, OfSocket returns [Unknown] in two cases: a descendant may hold
// the socket invisibly; or a descendant may have created it, and no other process may hold it
// invisibly. It also returns Unknown if descriptors for the search are lacking.
func OfSocket(inode uint32, uid int) Relation {
	h := holders{socket: fmt.Sprintf("socket:[%d]", inode), creator: uid, invisible: nested()}
	all, err := numbers("/proc")
	h.blind = err != nil
	for _, pid := range all {
		p, err := read(pid)
		h.blind = h.blind || file.Exhausted(err)
		if err != nil || p.dead {
			continue
		}
		relation := Of(pid)
		if relation == Unrelated {
			h.addUnrelated(p)
		} else if h.addDescendant(p) {
			return relation
		}
	}
	return h.relation()
}

// holders collects which processes hold a socket, or may hold it invisibly.
type holders struct {
	socket  string // as links in /proc show it
	creator int    // uid

	seen       bool // an unrelated process holds it
	invisible  bool // an unrelated process may hold it invisibly
	candidate  bool // there is a descendant that may have created it
	descendant bool // a descendant may hold it invisibly
	blind      bool // there were not enough descriptors to see what is visible
}

func (h *holders) addUnrelated(p process) {
	held, hidden := h.holds(p.file(""), false)
	h.seen = h.seen || held
	h.invisible = h.invisible || hidden && p.uid == h.creator
}

// addDescendant examines a process that is or may be a descendant, and reports whether it holds the socket.
func (h *holders) addDescendant(p process) bool {
	creator := p.uid == h.creator || os.Geteuid() == 0 // root's children can create sockets as any user
	h.candidate = h.candidate || creator
	// A thread can have descriptors that the main thread of its process does not have.
	threads, err := numbers(p.file("task"))
	h.blind = h.blind || file.Exhausted(err)
	for _, thread := range threads {
		held, hidden := h.holds(p.file(fmt.Sprintf("task/%d/", thread)), true)
		if held {
			return true
		}
		h.descendant = h.descendant || hidden && creator
	}
	return false
}

// relation returns the relation of the holder if no descendant was seen to hold the socket.
func (h *holders) relation() Relation {
	switch {
	case h.blind:
		return Unknown
	case h.creator == 0 && os.Geteuid() != 0 && !privileged.Load():
		return Unrelated // no child runs as root, and only root's children could hold the socket invisibly
	case !h.seen && (h.descendant || h.candidate && !h.invisible):
		return Unknown
	}
	return Unrelated
}

// nested reports whether this process is in a nested pid namespace, so that it does not see all processes.
func nested() bool {
	const initial = "pid:[4026531836]" // PROC_PID_INIT_INO of the kernel
	namespace, err := os.Readlink("/proc/self/ns/pid")
	return err != nil || namespace != initial
}

// holds reports whether a process or thread has the socket open, and whether it may have open files that are not
// visible. dir is its directory below /proc, with a trailing slash. If within is set, holds also considers files
// inside of descriptors: in queued messages of unix sockets, and in io_urings.
func (h *holders) holds(dir string, within bool) (held, hidden bool) {
	f, err := os.Open(dir + "fd")
	h.blind = h.blind || file.Exhausted(err)
	if err != nil {
		return false, !errors.Is(err, fs.ErrNotExist) // a process that has ended holds nothing
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	hidden = err != nil
	for _, name := range names {
		to, _ := os.Readlink(dir + "fd/" + name)
		if to == h.socket {
			return true, false
		}
		hidden = hidden || within && containsFiles.MatchString(to) && filesWithin(dir+"fdinfo/"+name)
	}
	return false, hidden
}

// containsFiles matches the descriptors that can hold other open files.
var containsFiles = regexp.MustCompile(`^socket:|io_uring`)

// filesWithin reports whether a descriptor holds other open files. info is its file in fdinfo,
// which has that information since Linux 5.12.
func filesWithin(info string) bool {
	text, err := os.ReadFile(info)
	return err != nil && !errors.Is(err, fs.ErrNotExist) || heldFiles.Match(text)
}

// heldFiles matches a non-zero count of open files.
var heldFiles = regexp.MustCompile(`(?m)^(scm_fds|UserFiles):\s*[1-9]`)

// numbers returns the numeric entries of a directory.
func numbers(dir string) (all []int, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			all = append(all, n)
		}
	}
	return all, err
}
