//go:build unix

package daemon

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/exthost/exthost/internal/proc/containment/sweep"
	"github.com/exthost/exthost/internal/testing/processtest"
)

const patience = 60 * time.Second

func TestMain(m *testing.M) {
	verbs := map[string]processtest.Verb{
		// holds a claim until it is killed
		"claim": func(dir string) {
			d, err := Claim(dir, os.Getenv("RUNTIME"), Info{})
			if err != nil {
				os.Stdout.WriteString(err.Error() + "\n")
				return
			}
			os.Stdout.WriteString("socket " + d.Info().Socket + "\n")
			_, _ = io.Copy(io.Discard, os.Stdin)
		},
	}
	maps.Copy(verbs, peerVerbs)
	processtest.Main(m, verbs)
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// shortDir returns a directory whose path is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "x")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func claim(t *testing.T, state, runtimeDir string) *Daemon {
	t.Helper()
	d, err := Claim(state, runtimeDir, Info{Scope: "here"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

// TestWhereTheSocketIs: only the user can open the socket, in each of its places, and Find finds it.
func TestWhereTheSocketIs(t *testing.T) {
	processtest.Leaks(t)
	long := filepath.Join(shortDir(t), strings.Repeat("long", 30))
	taken := shortDir(t)
	state := filepath.Join(shortDir(t), "project-0123abcd")
	if err := os.WriteFile(filepath.Join(taken, "exthost-project-0123abcd"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	runtime := shortDir(t)
	open := filepath.Join(runtime, "exthost-project-0123abcd")
	if err := os.Mkdir(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, state, runtime, want string }{
		{"runtime directory, too open before", state, runtime, open},
		{"no runtime directory", state, "", state},
		{"relative runtime directory", state, "run", state},
		{"runtime directory that cannot be used", state, taken, state},
		{"no room for the path", long, "", os.TempDir()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := claim(t, tt.state, tt.runtime)
			socket := d.Info().Socket
			if !strings.HasPrefix(socket, tt.want) {
				t.Errorf("it is %s, not below %s", socket, tt.want)
			}
			if m := modeOf(t, socket); m.Perm() != 0o600 || m.Type() != fs.ModeSocket {
				t.Errorf("the socket has mode %v", m)
			}
			if m := modeOf(t, filepath.Dir(socket)); m.Perm() != 0o700 {
				t.Errorf("its directory has mode %v", m)
			}
			if m := modeOf(t, filepath.Join(tt.state, place(0).lock())); m.Perm() != 0o600 {
				t.Errorf("the lock has mode %v", m)
			}
			if err := d.Serves("http://127.0.0.1:7800/mcp"); err != nil {
				t.Error(err)
			}
			got, err := Find(deadline(t), tt.state)
			dir, _ := os.Getwd()
			want := Info{
				Dir:    dir,
				PID:    os.Getpid(),
				Began:  d.Info().Began,
				Socket: socket,
				Serves: "http://127.0.0.1:7800/mcp",
				Scope:  "here",
				Marks:  sweep.OwnMarks(),
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Info{}, "Seen", "UID", "Lock")); diff != "" ||
				err != nil {
				t.Error(err, diff)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			if _, err := Find(deadline(t), tt.state); !errors.Is(err, ErrNotRunning) {
				t.Errorf("after Close: %v", err)
			}
			if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after Close the socket: %v", err)
			}
		})
	}
}

// TestSecondDaemon: a second daemon with the same state directory is refused, naming the first one's pid.
func TestSecondDaemon(t *testing.T) {
	processtest.Leaks(t)
	state := shortDir(t)
	d := claim(t, state, "")
	_, err := Claim(state, "", Info{})
	var running *RunningError
	if !errors.As(err, &running) || running.Info.PID != os.Getpid() || running.Info.Scope != "here" {
		t.Errorf("the second: %v", err)
	}
	if _, err := Find(deadline(t), state); err != nil {
		t.Errorf("the first, after the attempt: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	claim(t, state, "")
}

// TestStaleSocket: the files of a killed daemon do not prevent Claim, and Find does not report it as running.
func TestStaleSocket(t *testing.T) {
	processtest.Leaks(t)
	state, runtime := shortDir(t), shortDir(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), processtest.ScriptVar+"=claim "+state, "RUNTIME="+runtime)
	stdin, stdout := processtest.Piped(t, cmd)
	defer stdin.Close()
	line, _ := stdout.ReadString('\n')
	socket, ok := strings.CutPrefix(strings.TrimSpace(line), "socket ")
	if !ok {
		t.Fatalf("it says %q", line)
	}
	var running *RunningError
	if _, err := Claim(state, "", Info{}); !errors.As(err, &running) || running.Info.PID != cmd.Process.Pid {
		t.Errorf("while it lives: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if modeOf(t, socket).Type() != fs.ModeSocket {
		t.Fatal("it left no socket: the test tests nothing")
	}
	if _, err := Find(deadline(t), state); !errors.Is(err, ErrNotRunning) {
		t.Errorf("after its death: %v", err)
	}
	claim(t, state, "")
	if _, err := os.Lstat(filepath.Dir(socket)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its socket and the directory of it are still there: %v", err)
	}
}

// TestFoundWhileItWrites: Find finds a host at every moment while it updates its Info.
func TestFoundWhileItWrites(t *testing.T) {
	state := shortDir(t)
	d := claim(t, state, "")
	wrote := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				wrote <- nil
				return
			default:
			}
			if err := d.Serves(strings.Repeat("x", n%2*100)); err != nil {
				wrote <- err
				return
			}
		}
	}()
	f, err := os.Open(filepath.Join(state, place(0).lock()))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 2000 {
		if info, err := readInfo(f); err != nil || info.PID != os.Getpid() {
			t.Errorf("%+v, %v", info, err)
			break
		}
	}
	close(stop)
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

// TestForeignFileStays: a file at the socket's path that is not a socket is not removed.
func TestForeignFileStays(t *testing.T) {
	state := shortDir(t)
	file := filepath.Join(state, place(0).control())
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := claim(t, state, "")
	if strings.HasPrefix(d.Info().Socket, state) {
		t.Errorf("the socket is %s", d.Info().Socket)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
		t.Errorf("the file says %q, %v", text, err)
	}
}

// TestOtherUsersAreKeptOut: the listener checks the peer's user, in addition to the file mode.
func TestOtherUsersAreKeptOut(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux is asked")
	}
	processtest.Leaks(t)
	d := claim(t, shortDir(t), "")
	l := d.Listener(slog.New(slog.DiscardHandler)).(*userListener)
	l.users = []int{os.Geteuid() + 1} // as if the user were another one
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	conn, err := d.Info().Dial(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("another user reads %d bytes, %v", n, err)
	}
	l.Close()
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
}

// TestSocketOfAnotherUser: a socket of another user is ignored, whatever a lock file says.
func TestSocketOfAnotherUser(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux is asked")
	}
	processtest.Leaks(t)
	d := claim(t, shortDir(t), "")
	if conn, _, err := dial(deadline(t), d.Info().Socket, os.Geteuid()+1); err == nil ||
		!strings.Contains(err.Error(), "another user") {
		t.Errorf("the socket of another user is taken: %v, %v", conn, err)
	}
	conn, _, err := dial(deadline(t), d.Info().Socket, os.Geteuid())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
