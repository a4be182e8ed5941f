package file_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/testing/processtest"
)

func TestMain(m *testing.M) {
	processtest.Main(m, map[string]processtest.Verb{"full": full, "small": small})
}

// full writes 1 MiB to a file with a limit of 4 KiB and prints the error. It runs in its own process because the limit
// applies to the output of the testing package too.
func full(path string) {
	signal.Ignore(syscall.SIGXFSZ)
	err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: 4096})
	if err == nil {
		err = file.WriteAtomic(path, make([]byte, 1<<20))
	}
	fmt.Println(err)
}

// A failed write leaves the old content and no temporary file.
func TestInterruptedWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	program, env := processtest.Script(t, "full "+path)
	cmd := exec.Command(program)
	cmd.Env = env
	if said, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(said), syscall.EFBIG.Error()) {
		t.Errorf("the write ended with %s, %v", said, err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}
