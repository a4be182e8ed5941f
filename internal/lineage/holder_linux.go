package lineage

import (
	"fmt"
	"os"
	"slices"
	"strconv"
)

// OfSocket tells how the processes that hold a socket are related to the children of this
// one: [Descendant] if one of them is a descendant, [Unrelated] if all that can be seen are
// not. inode is that of the socket, and uid the user who made it.
//
// A socket may be held where nobody sees it: by a process that hides its descriptors, or in a
// message of a unix socket that is on its way. So where no process is seen to hold it, the relation
// is [Unknown] while there are descendants that may have made it.
func OfSocket(inode uint32, uid int) Relation {
	seen, doubt := false, false
	socket := fmt.Sprintf("socket:[%d]", inode)
	for _, pid := range numbers("/proc") {
		relation := Of(pid)
		if relation == Unrelated {
			seen = seen || holds(fmt.Sprintf("/proc/%d/fd", pid), socket)
			continue
		}
		p, alive := read(pid)
		if !alive || p.dead {
			continue
		}
		// A thread may have descriptors that the process, which is its first thread, has not.
		for _, thread := range numbers(p.file("task")) {
			if holds(p.file(fmt.Sprintf("task/%d/fd", thread)), socket) {
				return relation
			}
		}
		doubt = doubt || p.uid == uid || os.Geteuid() == 0 // children of root make sockets as everybody
	}
	if doubt && !seen {
		return Unknown
	}
	return Unrelated
}

// holds reports whether a file is seen to be open in a directory of descriptors.
func holds(dir, file string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return slices.ContainsFunc(names, func(name string) bool { to, _ := os.Readlink(dir + "/" + name); return to == file })
}

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
