package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkMemory measures the resident memory of the processes of a host: the host when it is ready, after 6,400
// calls of 64 callers and when it has rested from these, the guardian, and the init of a pid namespace. Pages of the
// program that several processes map count for each.
func BenchmarkMemory(b *testing.B) {
	isolated := strings.Replace(notesManifest, `id = "notes"`, `id = "isolated"`, 1) + "[runtime]\nisolate = \"pid\"\n"
	dir := project(b, map[string]string{
		"extensions/notes/plugin.toml":    notesManifest,
		"extensions/isolated/plugin.toml": isolated,
	})
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 64
	for b.Loop() {
		s := startServe(b, dir)
		b.ReportMetric(settled(b, s.Process.Pid), "ready-KiB")
		b.ReportMetric(settled(b, processOf(b, guardianOf(b, s.Process.Pid))), "guardian-KiB")
		for _, pid := range childrenNamed(s.Process.Pid, "exthost-init-") {
			b.ReportMetric(settled(b, pid), "init-KiB")
		}
		var callers sync.WaitGroup
		for range 64 {
			callers.Go(func() {
				for range 100 {
					s.call(b, "ext_notes_search", `{"query":"milk"}`)
				}
			})
		}
		callers.Wait()
		loaded := resident(b, s.Process.Pid)
		b.ReportMetric(loaded, "loaded-KiB")
		for deadline := time.Now().Add(patience); resident(b, s.Process.Pid) > loaded*3/4; {
			if time.Now().After(deadline) {
				b.Error("the host keeps its memory after the load")
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		b.ReportMetric(settled(b, s.Process.Pid), "rested-KiB")
		if err := s.Process.Signal(syscall.SIGTERM); err != nil {
			b.Fatal(err)
		}
		<-s.read
		_ = s.Wait() // its exit is not measured
	}
	b.ReportMetric(0, "ns/op")
}

// settled returns the resident memory of a process in KiB, once it has not changed for half a second.
func settled(b *testing.B, pid int) float64 {
	b.Helper()
	before, same := resident(b, pid), 0
	for deadline := time.Now().Add(patience); same < 5; time.Sleep(100 * time.Millisecond) {
		now := resident(b, pid)
		if same++; now != before {
			before, same = now, 0
		}
		if time.Now().After(deadline) {
			b.Fatalf("the memory of %d does not settle", pid)
		}
	}
	return before
}

// resident returns the resident memory of a process in KiB.
func resident(b *testing.B, pid int) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kib float64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		b.Fatal(err)
	}
	return kib
}

func processOf(b *testing.B, text string) (pid int) {
	b.Helper()
	if _, err := fmt.Sscan(text, &pid); err != nil {
		b.Fatal(err)
	}
	return pid
}

// childrenNamed returns the children of parent whose argv[0] begins with name.
func childrenNamed(parent int, name string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		cmdline, _ := os.ReadFile(file)
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "stat"))
		var pid, above int
		var command, state string
		_, _ = fmt.Sscan(string(stat), &pid, &command, &state, &above)
		if above == parent && bytes.HasPrefix(cmdline, []byte(name)) {
			pids = append(pids, pid)
		}
	}
	return pids
}
