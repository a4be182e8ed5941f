package file_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// small mounts a file system of 256 KiB at dir, in a namespace of its own. It writes a log there until no byte more
// fits, makes room and goes on, and prints what NoRoom says before, between and after, and the last lines of the log.
func small(dir string) {
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		fmt.Println("no mount:", err)
		return
	}
	rest := filepath.Join(dir, "rest")
	path := filepath.Join(dir, "new", "log")
	fmt.Printf("%q\n", file.NoRoom(path))
	err := errors.Join(os.WriteFile(rest, make([]byte, 200<<10), 0o600), os.Mkdir(filepath.Dir(path), 0o700))
	fmt.Printf("%q\n", file.NoRoom(path))
	log, failed := file.OpenRotating(path, 1<<20, 1)
	if err = errors.Join(err, failed); err != nil {
		fmt.Println(err)
		return
	}
	record := []byte("a record whose length divides no page " + strings.Repeat("-", 60) + "\n")
	for err == nil {
		_, err = log.Write(record)
	}
	fmt.Println(errors.Is(err, syscall.ENOSPC))
	err = os.Remove(rest)
	_, failed = log.Write([]byte("after\n"))
	fmt.Println(errors.Join(err, failed), fmt.Sprintf("%q", file.NoRoom(path)))
	text, _ := os.ReadFile(path)
	lines := strings.SplitAfter(string(text), "\n")
	torn, last := lines[len(lines)-3], lines[len(lines)-2]
	fmt.Printf("%t %q\n", len(torn) > 1 && len(torn) < len(record), last)
}

// A disk without room is recognised, also for files that do not exist yet, and no longer once there is room. A log
// that it has cut within a record continues with a line of its own.
func TestNoRoom(t *testing.T) {
	program, env := processtest.Script(t, "small "+t.TempDir())
	cmd := exec.Command(program)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	said, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || strings.HasPrefix(string(said), "no mount") {
		t.Skipf("NOT TESTED: a full disk: no file system can be mounted: %v %s", err, said)
	}
	const want = `""
"less than 64 KiB are free"
true
<nil> ""
true "after\n"
`
	if err != nil || string(said) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, said, want)
	}
}
