package lineage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
)

// OfSocket tells how the processes that hold a socket are related to the children of this
// one: [Descendant] if one of them is a descendant, [Unrelated] if all that can be seen are
// not. inode is that of the socket, and uid the user who made it.
//
// A socket may be held where nobody sees it: by a process that hides its descriptors, as sshd
// does, by one outside of this pid namespace, in a message of a unix socket that is on its way,
// or by io_uring. The relation is [Unknown] where no process is seen to hold it, and a
// descendant may do so unseen, or nobody else may.
func OfSocket(inode uint32, uid int) Relation {
	seen, hides, descends, elsewhere := false, false, false, nested()
	socket := fmt.Sprintf("socket:[%d]", inode)
	for _, pid := range numbers("/proc") {
		p, alive := read(pid)
		if !alive || p.dead {
			continue
		}
		maker := p.uid == uid
		relation := Of(pid)
		if relation == Unrelated {
			held, hidden := holds(p.file(""), socket, false)
			seen, elsewhere = seen || held, elsewhere || hidden && maker
			continue
		}
		maker = maker || os.Geteuid() == 0 // children of root make sockets as everybody
		descends = descends || maker
		// A thread may have descriptors that the process, which is its first thread, has not.
		for _, thread := range numbers(p.file("task")) {
			held, hidden := holds(p.file(fmt.Sprintf("task/%d/", thread)), socket, true)
			if held {
				return relation
			}
			hides = hides || hidden && maker
		}
	}
	if uid == 0 && os.Geteuid() != 0 && !privileged.Load() {
		return Unrelated // no child of this process is root's, and nobody but root sees what those of others hold
	}
	if !seen && (hides || descends && !elsewhere) {
		return Unknown
	}
	return Unrelated
}

// nested reports whether there are processes that this one does not see.
func nested() bool {
	const initial = "pid:[4026531836]" // PROC_PID_INIT_INO of the kernel
	namespace, err := os.Readlink("/proc/self/ns/pid")
	return err != nil || namespace != initial
}

// holds reports whether a file is seen to be open in a process or thread, whose directory ends with
// a slash, and whether files may be open there that are not seen. Within looks for those that
// a descriptor has in it: a unix socket in its messages, and an io_uring.
func holds(dir, file string, within bool) (held, hidden bool) {
	f, err := os.Open(dir + "fd")
	if err != nil {
		return false, !errors.Is(err, fs.ErrNotExist) // a process that has ended holds nothing
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	hidden = err != nil
	for _, name := range names {
		to, _ := os.Readlink(dir + "fd/" + name)
		if to == file {
			return true, false
		}
		hidden = hidden || within && containsFiles.MatchString(to) && filesWithin(dir+"fdinfo/"+name)
	}
	return false, hidden
}

// containsFiles matches descriptors that can hold other open files.
var containsFiles = regexp.MustCompile(`^socket:|io_uring`)

// filesWithin reports whether a descriptor holds other open files, as its file in fdinfo says
// since Linux 5.12.
func filesWithin(info string) bool {
	text, err := os.ReadFile(info)
	return err != nil && !errors.Is(err, fs.ErrNotExist) || heldFiles.Match(text)
}

// heldFiles matches a count of open files that is not 0.
var heldFiles = regexp.MustCompile(`(?m)^(scm_fds|UserFiles):\s*[1-9]`)

// numbers returns the entries of a directory that are numbers.
func numbers(dir string) (all []int) {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			all = append(all, n)
		}
	}
	return all
}
