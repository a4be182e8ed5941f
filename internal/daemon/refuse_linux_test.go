package daemon

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/process/processtest"
)

const admitted = "admitted"

// hostVerb is a host: it answers each connection with what Refusal says, and runs the lines
// of its stdin as children: a mode and a script.
func hostVerb(state string) {
	d, err := Claim(state, "", Info{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	l := d.Listener(slog.New(slog.DiscardHandler))
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go judge(conn)
		}
	}()
	fmt.Println(d.Info().Socket)
	exe, _ := os.Executable()
	containment := process.Contain(exe)
	defer containment.Close()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		mode, script, _ := strings.Cut(lines.Text(), " ")
		fmt.Println(child(containment, exe, mode, script))
	}
}

// judge answers after the first byte of the other side.
func judge(conn net.Conn) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		return
	}
	fmt.Fprintln(conn, cmp.Or(Refusal(conn), admitted))
}

// child runs a child as the host does, and returns the first line that it says.
func child(c *process.Containment, exe, mode, script string) string {
	s := process.Spec{Path: exe, Env: processtest.Env(script), Containment: c, Isolate: mode == "isolated", NewPrivileges: mode == "privileged"}
	p, err := process.Start(context.Background(), s)
	if err != nil {
		return err.Error()
	}
	defer p.Stdout.Close()
	_ = p.Stdout.SetReadDeadline(time.Now().Add(patience))
	line, err := bufio.NewReader(p.Stdout).ReadString('\n')
	if err != nil {
		line = fmt.Sprintf("%v: %q", err, p.Tail())
	}
	p.Kill()
	<-p.Done()
	return strings.TrimSpace(line)
}

// ask connects and prints the answer.
func ask(socket string) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	hear(conn)
}

func hear(conn net.Conn) {
	_, _ = conn.Write([]byte{0})
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	answer, err := io.ReadAll(conn)
	if err != nil {
		fmt.Println(err)
	}
	_, _ = os.Stdout.Write(answer)
}

// escape has a process that has left its session, its parents and its environment run a
// step, while this one stays.
func escape(step string) {
	_ = detached("abandon "+step, nil).Wait()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// abandon starts the process and ends.
func abandon(step string) { detached(fmt.Sprintf("orphan %d %s", os.Getpid(), step), nil) }

// orphan runs a step when its parent has ended.
func orphan(args string) {
	parent, step, _ := strings.Cut(args, " ")
	awaitEnd(parent)
	name, rest, _ := strings.Cut(step, " ")
	if name == "inherit" {
		inherit(rest)
		return
	}
	ask(rest)
}

func awaitEnd(process string) {
	pid, _ := strconv.Atoi(process)
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has been reaped
	}
	defer unix.Close(fd)
	for {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds())); err != unix.EINTR {
			return
		}
	}
}

// inherit connects, and leaves the connection to a process that outlives this one.
func inherit(socket string) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Println(err)
		return
	}
	f, _ := conn.(*net.UnixConn).File()
	detached(fmt.Sprintf("heir %d", os.Getpid()), f)
}

func heir(parent string) {
	awaitEnd(parent)
	conn, err := net.FileConn(os.NewFile(3, "inherited"))
	if err != nil {
		fmt.Println(err)
		return
	}
	hear(conn)
}

// detached starts a process in a session of its own with an environment of its own.
func detached(script string, file *os.File) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.Stdout, cmd.Stderr = processtest.Env(script), os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if file != nil {
		cmd.ExtraFiles = []*os.File{file}
	}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
	}
	return cmd
}

// shell runs a step by way of two shells.
func shell(step string) {
	exe, _ := os.Executable()
	cmd := exec.Command("/bin/sh", "-c", "/bin/sh -c '"+exe+"; true'; true")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), processtest.Env(step)...), os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
	}
}

// peerVerbs are the steps of processes that connect to a host.
var peerVerbs = map[string]processtest.Verb{"host": hostVerb, "ask": ask, "shell": shell, "escape": escape, "abandon": abandon,
	"orphan": orphan, "heir": heir, "terminal": terminal}

// user is who runs a host and its peers, and how.
type user struct {
	id      uint32
	confine bool // with no_new_privs
}

// command runs a script in the test binary at exe.
func (u user) command(exe, script string) *exec.Cmd {
	cmd := exec.Command(exe)
	if u.confine {
		cmd = exec.Command("setpriv", "--no-new-privs", exe)
	}
	cmd.Dir, cmd.Env, cmd.Stderr = "/", append(processtest.Env(script), "PATH="+os.Getenv("PATH")), os.Stderr
	if int(u.id) != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.id, Gid: u.id}}
	}
	return cmd
}

// says runs a script and returns what it says.
func (u user) says(t *testing.T, exe, script string) string {
	t.Helper()
	out, err := u.command(exe, script).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// interactive is a process that is told lines and answers each with one.
type interactive struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

func (u user) start(t *testing.T, exe, script string) *interactive {
	t.Helper()
	cmd := u.command(exe, script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &interactive{t, in, bufio.NewReader(out)}
}

func (i *interactive) answer() string {
	i.t.Helper()
	line, err := i.out.ReadString('\n')
	if err != nil {
		i.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func (i *interactive) tell(line string) string {
	i.t.Helper()
	if _, err := io.WriteString(i.in, line+"\n"); err != nil {
		i.t.Fatal(err)
	}
	return i.answer()
}

// copySelf copies the test binary to where every user can run it.
func copySelf(t *testing.T) string {
	t.Helper()
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "exthost")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// The host takes orders from its user's processes, and from none of its children, however
// they hide where they come from.
func TestChildrenGiveNoOrders(t *testing.T) {
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("setpriv is not installed")
	}
	exe := copySelf(t)
	users := map[string]user{"this user": {id: uint32(os.Geteuid())}, "this user with no_new_privs": {uint32(os.Geteuid()), true}}
	if os.Geteuid() == 0 {
		users["an ordinary user"], users["an ordinary user with no_new_privs"] = user{65534, false}, user{65534, true}
	}
	for name, u := range users {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			state := shortDir(t)
			if err := os.Chown(state, int(u.id), -1); err != nil {
				t.Fatal(err)
			}
			host := u.start(t, exe, "host "+state)
			socket := host.answer()
			for _, mode := range []string{"plain", "isolated"} {
				for _, script := range []string{"ask", "shell ask", "escape ask", "escape inherit"} {
					if got := host.tell(mode + " " + script + " " + socket); got == admitted || !strings.Contains(got, "host") {
						t.Errorf("a child, %s, %s: %s", mode, script, got)
					}
				}
			}
			for _, script := range []string{"ask", "shell ask", "abandon ask"} {
				if got := u.says(t, exe, script+" "+socket); got != admitted {
					t.Errorf("the user: %s: %s", script, got)
				}
			}
			if got := (user{id: u.id}).says(t, exe, "ask "+socket); got != admitted {
				t.Errorf("the user without no_new_privs: %s", got)
			}
		})
	}
}

// nextTick waits until what starts is seen to be younger than what runs: the kernel tells the
// start of a process in hundredths of a second.
func nextTick(t *testing.T) {
	t.Helper()
	ticks := func() int64 {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
			t.Fatal(err)
		}
		return now.Nano() / int64(10*time.Millisecond)
	}
	for began := ticks(); ticks() == began; {
		time.Sleep(time.Millisecond)
	}
}

// A process with no_new_privs looks as a child of the host does. It is the user's where one
// of its ancestors proves that: one that is older than the host.
func TestProcessesThatLookAsChildren(t *testing.T) {
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("setpriv is not installed")
	}
	processtest.Leaks(t)
	exe, u, confined := copySelf(t), user{id: uint32(os.Geteuid())}, user{uint32(os.Geteuid()), true}
	older := confined.start(t, exe, "terminal")
	_ = older.tell("echo ready") // and so started
	nextTick(t)
	host := u.start(t, exe, "host "+shortDir(t))
	socket := host.answer()
	if got := older.tell(exe + " ask " + socket); got != admitted {
		t.Errorf("from a terminal that is older than the host: %s", got)
	}
	if got := confined.says(t, exe, "ask "+socket); !strings.Contains(got, "NoNewPrivs") {
		t.Errorf("a process that cannot be told from a child: %s", got)
	}
}

// Where a child may gain privileges, its ancestors and its environment tell what it is.
func TestChildrenWithPrivileges(t *testing.T) {
	processtest.Leaks(t)
	exe, u := copySelf(t), user{id: uint32(os.Geteuid())}
	host := u.start(t, exe, "host "+shortDir(t))
	socket := host.answer()
	for _, script := range []string{"ask", "shell ask", "daemon ask"} {
		script, after := script+" "+socket, ""
		if strings.HasPrefix(script, "daemon") {
			after = "; eof"
		}
		if got := host.tell("privileged " + script + after); !strings.Contains(got, "own children") {
			t.Errorf("%s: %s", script, got)
		}
	}
	if got := u.says(t, exe, "ask "+socket); got != admitted {
		t.Errorf("the user: %s", got)
	}
}

// terminal runs the lines of its stdin: a command of one word, and its script.
func terminal(string) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		name, script, _ := strings.Cut(lines.Text(), " ")
		if name == "echo" {
			fmt.Println(script)
			continue
		}
		cmd := exec.Command(name)
		cmd.Env, cmd.Stdout, cmd.Stderr = processtest.Env(script), os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			fmt.Println(err)
		}
	}
}
