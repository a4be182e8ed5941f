package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// Root can read and stop the host of an ordinary user without changing the owner of its files. Another ordinary user
// only learns that the host exists.
func TestRootReachesTheHostOfAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: only root can be several users")
	}
	processtest.Leaks(t)
	const user, stranger = 65534, 65533
	exe := processtest.CopySelf(t)
	dir := hostedBy(t, user)
	as := func(uid uint32, home, in string, args ...string) *exec.Cmd {
		cmd := operator(exe, home, args...)
		cmd.Dir, cmd.SysProcAttr = in, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		return cmd
	}
	s := startHost(t, as(user, dir, dir, "serve", "--listen", "127.0.0.1:0"))
	pid := strconv.Itoa(s.Process.Pid)
	roots, strangers := t.TempDir(), hostedBy(t, stranger)
	says := func(uid uint32, home, in string, code int, want string, args ...string) {
		t.Helper()
		cmd := as(uid, home, in, args...)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), want) {
			t.Errorf("exthost %s as user %d: exit code %d, %s", strings.Join(args, " "), uid, got, out)
		}
	}
	says(0, roots, roots, console.ExitOK, "pid "+pid, "status", "--host", pid)
	says(0, roots, roots, console.ExitOK, "pid "+pid, "status", "--host", dir)
	says(0, roots, dir, console.ExitOK, "pid "+pid, "status")
	says(0, dir, dir, console.ExitOK, "pid "+pid, "status") // sudo that keeps HOME
	says(0, roots, roots, console.ExitNotFound, "; elsewhere on this machine: ", "status", "--host", "1")
	says(0, roots, roots, console.ExitOK, "kit is disabled", "disable", "kit", "--host", pid)
	says(stranger, strangers, strangers, console.ExitNotFound, "of other users", "status", "--host", pid)
	says(stranger, strangers, strangers, console.ExitNotFound, "of other users", "stop", "--host", pid)
	const absent = "NO CALL PASSES: no host is running in %s; next: exthost serve\n"
	says(stranger, strangers, strangers, console.ExitNotFound, fmt.Sprintf(absent, strangers), "status")
	belongsTo(t, dir, user)
	says(0, roots, roots, console.ExitOK, "stopped pid "+pid, "stop", "--host", pid)
	if t.Failed() {
		s.Process.Kill() // it may not have been stopped
	}
	<-s.read
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
	s = startHost(t, as(user, dir, dir, "serve", "--listen", "127.0.0.1:0")) // with the files that root has left
	if code := s.end(t, os.Interrupt); code != console.ExitOK {
		t.Errorf("the next host: exit code %d, %s", code, s.stderr)
	}
}

// hostedBy creates a directory of a user with an extension.
func hostedBy(t *testing.T, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "x") // other users cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	kit := filepath.Join(dir, "extensions", "kit")
	manifest := filepath.Join(kit, "plugin.toml")
	err = errors.Join(os.MkdirAll(kit, 0o755), os.WriteFile(manifest, []byte(kitManifest), 0o644))
	for _, path := range []string{dir, filepath.Dir(kit), kit, manifest} {
		err = errors.Join(err, os.Chown(path, uid, uid))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// belongsTo checks the owner of a host's files and of its socket, which the lock file names.
func belongsTo(t *testing.T, dir string, uid uint32) {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	locks, _ := filepath.Glob(filepath.Join(dir, "state", "exthost", "*", ".exthost.lock"))
	if len(locks) != 1 {
		t.Fatalf("lock files: %v", locks)
	}
	var info struct{ Socket string }
	text, err := os.ReadFile(locks[0])
	if err := errors.Join(err, json.Unmarshal(text, &info)); err != nil {
		t.Fatal(err)
	}
	for _, path := range append(paths, info.Socket) {
		var is syscall.Stat_t
		if err := syscall.Lstat(path, &is); err != nil || is.Uid != uid {
			t.Errorf("%s belongs to user %d: %v", path, is.Uid, err)
		}
	}
}
