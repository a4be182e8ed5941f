//go:build unix

package processtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// User is a user as whom the test binary runs scripts. Only root can run them as another user.
type User struct {
	Exe        string // a copy of the test binary that the user can run, see [CopySelf]
	ID         uint32
	NoNewPrivs bool // the scripts run with no_new_privs; needs setpriv
}

// CopySelf copies the test binary to where every user can run it.
func CopySelf(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "x") // others cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "exthost")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Command returns the command that runs a script as u.
func (u User) Command(script string) *exec.Cmd {
	cmd := exec.Command(u.Exe)
	if u.NoNewPrivs {
		cmd = exec.Command("setpriv", "--no-new-privs", u.Exe)
	}
	cmd.Dir, cmd.Env, cmd.Stderr = "/", append(Env(script), "PATH="+os.Getenv("PATH")), os.Stderr
	if int(u.ID) != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.ID, Gid: u.ID}}
	}
	return cmd
}

// Says runs a script and returns its output, trimmed.
func (u User) Says(t testing.TB, script string) string {
	t.Helper()
	out, err := u.Command(script).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
