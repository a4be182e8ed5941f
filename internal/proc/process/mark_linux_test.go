package process

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/proc/containment/sweep"
	"github.com/exthost/exthost/internal/testing/processtest"
)

func init() {
	// unmark tries to get rid of this process's mark, and prints the remaining one.
	verbs["unmark"] = func(string) {
		err := unix.Setrlimit(sweep.ResourceLocks, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
		limit, _ := sweep.Limit(os.Getpid())
		fmt.Println(limit, err == unix.EPERM)
	}
}

// Every child has its own mark and cannot get rid of it, however it is started, and even as root.
func TestChildrenAreMarked(t *testing.T) {
	processtest.Leaks(t)
	c := Contain(ourselves())
	defer c.Close()
	for name, change := range map[string]func(*testing.T) func(*Spec){
		"plain":    func(*testing.T) func(*Spec) { return func(*Spec) {} },
		"limited":  func(*testing.T) func(*Spec) { return func(s *Spec) { s.Limits = limited.Limits{OpenFiles: 64} } },
		"isolated": isolated,
	} {
		t.Run(name, func(t *testing.T) {
			change := change(t)
			seen := make(map[uint64]bool)
			for range 2 {
				p := start(t, "unmark", func(s *Spec) { change(s); s.Containment = c })
				var limit uint64
				var denied bool
				line := p.line()
				if n, _ := fmt.Sscan(line, &limit, &denied); n != 2 || !denied || !c.marks.Has(limit) || seen[limit] {
					t.Errorf("%s, not of %v", line, c.marks)
				}
				seen[limit] = true
				p.ended()
			}
		})
	}
}

// A number is used by one child or containment at a time, however many there were.
func TestNumbersAreInUseOnce(t *testing.T) {
	n := numbers{most: 3}
	got := []int{n.take(), n.take()}
	n.free(1)
	got = append(got, n.take(), n.take(), n.take())
	n.free(2)
	if got = append(got, n.take()); fmt.Sprint(got) != "[1 2 3 1 0 2]" {
		t.Error(got)
	}
}
