package process

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// SessionMemory returns the resident memory in bytes of each session, keyed by session id, which is the pid of a child.
// Shared pages count for each process. The map is nil if /proc cannot be read.
func SessionMemory() map[int]int64 {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	all := make(map[int]int64)
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // the process has ended
		}
		// The name may contain any character. After it come state, parent, group, session, …; the resident pages are
		// the 22nd field.
		if f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]); len(f) >= 22 {
			session, _ := strconv.Atoi(string(f[3]))
			pages, _ := strconv.ParseInt(string(f[21]), 10, 64)
			all[session] += pages * int64(os.Getpagesize())
		}
	}
	return all
}

// CountFiles returns the number of open files of this process, connections among them; 0 if /proc cannot be read.
func CountFiles() int {
	dir, err := os.Open("/proc/self/fd")
	if errors.Is(err, unix.EMFILE) { // no descriptor is left to count with
		return int(OpenFiles())
	}
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return max(len(names)-1, 0) // without dir itself
}

// Memory returns the resident memory of this process in bytes; 0 if /proc cannot be read.
func Memory() int64 {
	statm, err := os.ReadFile("/proc/self/statm")
	f := bytes.Fields(statm)
	if err != nil || len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(f[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}
