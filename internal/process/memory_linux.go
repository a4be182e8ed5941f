package process

import (
	"bytes"
	"os"
	"strconv"
)

// SessionMemory returns how many bytes of memory the processes of each session
// hold, by session id: a child's pid, since each child leads a session of its own.
// What its processes share is counted for each. It is empty where the system does
// not tell.
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
			continue // it has just ended
		}
		// After the name, which may hold anything: state, parent, group, session, …,
		// the resident pages as the 22nd.
		if f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]); len(f) >= 22 {
			session, _ := strconv.Atoi(string(f[3]))
			pages, _ := strconv.ParseInt(string(f[21]), 10, 64)
			all[session] += pages * int64(os.Getpagesize())
		}
	}
	return all
}

// Memory returns how many bytes of memory this process holds; 0 where the system
// does not tell.
func Memory() int64 {
	statm, err := os.ReadFile("/proc/self/statm")
	f := bytes.Fields(statm)
	if err != nil || len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(f[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}
