package process

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// oomFile returns the file that counts the processes killed for lack of memory: of the host's control group, which its
// children are in, else of the whole system.
var oomFile = sync.OnceValue(func() string {
	const root = "/sys/fs/cgroup"
	text, _ := os.ReadFile("/proc/self/cgroup") // without it, that of the system
	for line := range strings.Lines(string(text)) {
		_, group, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, dir, _ := strings.Cut(group, ":")
		at, name := root, "memory.events" // version 2
		switch controllers {
		case "":
		case "memory": // version 1
			at, name = filepath.Join(root, "memory"), "memory.oom_control"
		default:
			continue
		}
		for _, dir := range []string{dir, "/"} { // in a container, its own group may be the root
			if file := filepath.Join(at, dir, name); readCount(file, "oom_kill") >= 0 {
				return file
			}
		}
	}
	return "/proc/vmstat"
})

// oomKills returns how many processes the kernel has killed so far for lack of memory, near this host; 0 if the system
// does not tell.
func oomKills() uint64 { return uint64(max(readCount(oomFile(), "oom_kill"), 0)) }

// readCount returns the number that follows key in a line of file; -1 if there is none.
func readCount(file, key string) int64 {
	text, _ := os.ReadFile(file) // without it, there is no such line
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), key+" "); ok {
			if n, err := strconv.ParseInt(n, 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}
