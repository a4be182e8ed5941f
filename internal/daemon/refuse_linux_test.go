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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/lineage"
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
	return processtest.FirstLine(p, p.Stdout)
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

// newUser returns who runs this test.
func newUser(t *testing.T) processtest.User {
	return processtest.User{Exe: processtest.CopySelf(t), ID: uint32(os.Geteuid())}
}

// confined returns u with no_new_privs.
func confined(u processtest.User) processtest.User {
	u.NoNewPrivs = true
	return u
}

// The host takes orders from its user's processes, and from none of its children, however
// they hide where they come from.
func TestChildrenGiveNoOrders(t *testing.T) {
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("setpriv is not installed")
	}
	self, other := newUser(t), newUser(t)
	other.ID = 65534
	users := map[string]processtest.User{"this user": self, "this user with no_new_privs": confined(self)}
	if os.Geteuid() == 0 {
		users["an ordinary user"], users["an ordinary user with no_new_privs"] = other, confined(other)
	}
	for name, u := range users {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			state := shortDir(t)
			if err := os.Chown(state, int(u.ID), -1); err != nil {
				t.Fatal(err)
			}
			host := processtest.Talk(t, u.Command("host "+state))
			socket := host.Answer()
			for _, mode := range []string{"plain", "isolated"} {
				for _, script := range []string{"ask", "shell ask", "escape ask", "escape inherit"} {
					if got := host.Tell(mode + " " + script + " " + socket); got == admitted || !strings.Contains(got, "host") {
						t.Errorf("a child, %s, %s: %s", mode, script, got)
					}
				}
			}
			for _, script := range []string{"ask", "shell ask", "abandon ask"} {
				if got := u.Says(t, script+" "+socket); got != admitted {
					t.Errorf("the user: %s: %s", script, got)
				}
			}
			free := u
			free.NoNewPrivs = false
			if got := free.Says(t, "ask "+socket); got != admitted {
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
	u := newUser(t)
	older := processtest.Talk(t, confined(u).Command("terminal"))
	_ = older.Tell("echo ready") // and so started
	nextTick(t)
	host := processtest.Talk(t, u.Command("host "+shortDir(t)))
	socket := host.Answer()
	if got := older.Tell(u.Exe + " ask " + socket); got != admitted {
		t.Errorf("from a terminal that is older than the host: %s", got)
	}
	if got := confined(u).Says(t, "ask "+socket); !strings.Contains(got, "NoNewPrivs") {
		t.Errorf("a process that cannot be told from a child: %s", got)
	}
}

// Where a child may gain privileges, its ancestors and its environment tell what it is.
func TestChildrenWithPrivileges(t *testing.T) {
	processtest.Leaks(t)
	u := newUser(t)
	host := processtest.Talk(t, u.Command("host "+shortDir(t)))
	socket := host.Answer()
	for _, script := range []string{"ask", "shell ask", "daemon ask"} {
		script, after := script+" "+socket, ""
		if strings.HasPrefix(script, "daemon") {
			after = "; eof"
		}
		if got := host.Tell("privileged " + script + after); !strings.Contains(got, "own children") {
			t.Errorf("%s: %s", script, got)
		}
	}
	if got := u.Says(t, "ask "+socket); got != admitted {
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

// Where /proc hides processes, the refusal names that and the way out.
func TestRefusalOfHiddenProcess(t *testing.T) {
	hides := func() string { return "hidden; next" }
	if why := refusal(os.Getpid(), lineage.Unknown, hides); !strings.HasSuffix(why, ": hidden; next") {
		t.Error(why)
	}
	if why := refusal(os.Getpid(), lineage.Unknown, func() string { return "" }); !strings.Contains(why, "no_new_privs") {
		t.Error(why)
	}
	if why := refusal(os.Getpid(), lineage.Unrelated, hides); why != "" {
		t.Error(why)
	}
}
