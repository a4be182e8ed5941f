package processtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of every orphaned descendant.
func adoptOrphans(t testing.TB) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatalf("become the reaper of orphans: %v", err)
	}
}

func addDescriptors(all map[string]string) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		// Skip the descriptor of ReadDir itself and those that the runtime opens on demand.
		if err != nil || target == "anon_inode:[eventpoll]" || target == "anon_inode:[eventfd]" {
			continue
		}
		desc := fmt.Sprintf("descriptor %s %s", e.Name(), target)
		all[desc] = desc
	}
}

func addProcesses(all map[string]string) {
	for _, c := range children() {
		if c.state == 'Z' && !held(c.pid) {
			// An orphan, which only this process can reap.
			_, _ = unix.Wait4(c.pid, nil, unix.WNOHANG, nil)
			continue
		}
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.pid))
		all[c.key()] = fmt.Sprintf("process %d, state %c: %s", c.pid, c.state,
			bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '}))
	}
}

func killChildren(before map[string]string) {
	for _, c := range children() {
		if _, known := before[c.key()]; !known {
			_ = unix.Kill(c.pid, unix.SIGKILL)
			_, _ = unix.Wait4(c.pid, nil, 0, nil)
		}
	}
}

// held reports whether an [os.Process] of this program refers to the child pid. An [os.Process] has a pidfd until Wait.
func held(pid int) bool {
	infos, _ := filepath.Glob("/proc/self/fdinfo/*")
	return slices.ContainsFunc(infos, func(name string) bool {
		info, _ := os.ReadFile(name)
		return bytes.Contains(info, fmt.Appendf(nil, "\nPid:\t%d\n", pid))
	})
}

// child is a child of this process, started or adopted.
type child struct {
	pid   int
	state byte
}

func (c child) key() string { return fmt.Sprint("process ", c.pid) }

func children() (all []child) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		// fields after the name, which may hold any character
		f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(f) > 1 && string(f[1]) == strconv.Itoa(os.Getpid()) {
			all = append(all, child{pid: pid, state: f[0][0]})
		}
	}
	return all
}
