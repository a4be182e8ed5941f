package lineage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
)

// OfSocket tells how the processes that hold a socket are related to the children of this
// one: [Descendant] if one of them is a descendant, [Unrelated] if all that can be seen are
// not. inode is that of the socket. A process of the user uid, which made the socket, may
// hide its descriptors; with a descendant among those the relation is [Unknown] unless
// another process is seen to hold it.
func OfSocket(inode uint32, uid int) Relation {
	seen, doubt := false, false
	socket := fmt.Sprintf("socket:[%d]", inode)
	for _, pid := range numbers("/proc") {
		relation := Of(pid)
		if relation == Unrelated {
			held, _ := holds(fmt.Sprintf("/proc/%d/fd", pid), socket)
			seen = seen || held
			continue
		}
		p, alive := read(pid)
		if !alive || p.dead {
			continue
		}
		// A thread may have descriptors that the process, which is its first thread, has not.
		for _, thread := range numbers(p.file("task")) {
			held, readable := holds(p.file(fmt.Sprintf("task/%d/fd", thread)), socket)
			if held {
				return relation
			}
			doubt = doubt || !readable && p.uid == uid
		}
	}
	if doubt && !seen {
		return Unknown
	}
	return Unrelated
}

// holds reports whether a file is open in a directory of descriptors, and whether that can be
// seen. A process that has ended holds nothing.
func holds(dir, file string) (held, readable bool) {
	f, err := os.Open(dir)
	if err != nil {
		return false, errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	for _, name := range names {
		if to, _ := os.Readlink(dir + "/" + name); to == file {
			return true, true
		}
	}
	return false, err == nil
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
