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

	"github.com/exthost/exthost/internal/proc/containment/lineage"
	"github.com/exthost/exthost/internal/proc/containment/sweep"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/testing/processtest"
)

const admitted = "admitted"

// unguarded is a variable that disables the host's guardian.
const unguarded = "UNGUARDED"

// hostVerb acts as a host: it answers each connection with Refusal's result, and runs each line of its stdin as a
// child, with a mode and a script.
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
	if os.Getenv(unguarded) != "" {
		exe = ""
	}
	containment := process.Contain(exe)
	exe, _ = os.Executable()
	defer containment.Close()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		mode, script, _ := strings.Cut(lines.Text(), " ")
		fmt.Println(child(containment, exe, mode, script))
	}
}

// judge answers after the peer's first byte.
func judge(conn net.Conn) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		return
	}
	fmt.Fprintln(conn, cmp.Or(Refusal(conn), admitted))
}

// child runs a child like a host, and returns the child's first line. It then ends the child, unless mode is kept.
func child(c *process.Containment, exe, mode, script string) string {
	s := process.Spec{
		Path:          exe,
		Env:           processtest.Env(script),
		Containment:   c,
		Isolate:       mode == "isolated",
		NewPrivileges: mode == "privileged",
	}
	p, err := process.Start(context.Background(), s)
	if err != nil {
		return err.Error()
	}
	if mode == "kept" {
		line, _ := bufio.NewReader(p.Stdout).ReadString('\n')
		return strings.TrimSpace(line)
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

// escape runs a step in a process that has left its session, parents and environment. This process waits meanwhile.
func escape(step string) {
	_ = detached("abandon "+step, nil).Wait()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// abandon starts the process and exits.
func abandon(step string) { detached(fmt.Sprintf("orphan %d %s", os.Getpid(), step), nil) }

// orphan runs a step when its parent has exited.
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
		return // the parent has been reaped
	}
	defer unix.Close(fd)
	for {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}},
			int(patience.Milliseconds())); err != unix.EINTR {
			return
		}
	}
}

// inherit connects and passes the connection to a process that outlives this one.
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

// detached starts a process in its own session with its own environment.
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

// shell runs a step through two shells.
func shell(step string) {
	exe, _ := os.Executable()
	cmd := exec.Command("/bin/sh", "-c", "/bin/sh -c '"+exe+"; true'; true")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), processtest.Env(step)...), os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
	}
}

// peerVerbs are steps of processes that connect to a host.
var peerVerbs = map[string]processtest.Verb{
	"host":       hostVerb,
	"ask":        ask,
	"shell":      shell,
	"escape":     escape,
	"abandon":    abandon,
	"orphan":     orphan,
	"heir":       heir,
	"outlive":    outlive,
	"abandon2":   abandon2,
	"avenge":     avenge,
	"unmarkable": unmarkable,
	"tight":      tight,
}

// newUser returns the user that runs this test.
func newUser(t *testing.T) processtest.User {
	return processtest.User{Exe: processtest.CopySelf(t), ID: uint32(os.Geteuid())}
}

// confined returns u with no_new_privs.
func confined(u processtest.User) processtest.User {
	u.NoNewPrivs = true
	return u
}

// users returns the users to run a test as.
func users(t *testing.T) map[string]processtest.User {
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("NOT TESTED: setpriv is not installed")
	}
	self, other := newUser(t), newUser(t)
	other.ID = 65534
	users := map[string]processtest.User{"this user": self, "this user with no_new_privs": confined(self)}
	if os.Geteuid() == 0 {
		users["an ordinary user"], users["an ordinary user with no_new_privs"] = other, confined(other)
	}
	return users
}

// TestChildrenGiveNoOrders: the host accepts its user's processes, but none of its children, however they hide
// their origin.
func TestChildrenGiveNoOrders(t *testing.T) {
	for name, u := range users(t) {
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
					if got := host.Tell(mode + " " + script + " " + socket); got == admitted ||
						!strings.Contains(got, "host") {
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

// TestOrphansOfEarlierHostsGiveNoOrders: the next host of a directory refuses a process that was left by a host
// killed with its guardian, however old that process is.
func TestOrphansOfEarlierHostsGiveNoOrders(t *testing.T) {
	for name, u := range users(t) {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			dir := shortDir(t)
			if err := os.Chown(dir, int(u.ID), -1); err != nil {
				t.Fatal(err)
			}
			said := filepath.Join(dir, "said")
			if err := unix.Mkfifo(said, 0o666); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(said, 0o666); err != nil {
				t.Fatal(err)
			}
			killed := u.Command("host " + dir)
			killed.Env = append(killed.Env, unguarded+"=1")
			in, out := processtest.Piped(t, killed)
			defer in.Close()
			says := func() string { line, _ := out.ReadString('\n'); return strings.TrimSpace(line) }
			socket := says()
			lines, err := os.OpenFile(said, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer lines.Close()
			_ = lines.SetReadDeadline(time.Now().Add(patience))
			fmt.Fprintf(in, "kept outlive %d %s %s; out started; eof\n", killed.Process.Pid, socket, said)
			if got := says(); got != "started" {
				t.Fatal(got)
			}
			answers := bufio.NewReader(lines)
			ready, _ := answers.ReadString('\n') // the orphan is detached
			if err := killed.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = killed.Wait() // so that the lock of the killed host is released
			if got := processtest.Talk(t, u.Command("host "+dir)).Answer(); got != socket {
				t.Fatal(got)
			}
			answer, _ := answers.ReadString('\n')
			if ready != "ready\n" || !strings.Contains(answer, "was started by an extension") {
				t.Errorf("the orphan: %q, %q", ready, answer)
			}
			if got := u.Says(t, "ask "+socket); got != admitted {
				t.Errorf("the user: %s", got)
			}
		})
	}
}

// outlive leaves an orphan that shares no session, environment or directory with its parents. Arguments: HOST
// SOCKET FILE.
func outlive(args string) {
	cmd := detached("abandon2 "+args, nil)
	_ = cmd.Wait()
}

// abandon2 starts the orphan and exits.
func abandon2(args string) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", processtest.Env("avenge "+args), &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
	}
}

// avenge connects to the next host, and writes its answer to a file.
func avenge(args string) {
	words := strings.Fields(args)
	out, err := os.OpenFile(words[2], os.O_WRONLY, 0)
	if err != nil {
		return
	}
	fmt.Fprintln(out, "ready")
	awaitEnd(words[0])
	os.Stdout = out
	for {
		if conn, err := net.Dial("unix", words[1]); err == nil {
			hear(conn)
			return
		}
		time.Sleep(time.Millisecond) // the creation of a socket cannot be awaited
	}
}

// TestProcessesThatLookAsChildren: a process with no_new_privs is accepted, unless children cannot be marked: then
// the process looks like a child.
func TestProcessesThatLookAsChildren(t *testing.T) {
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("setpriv is not installed")
	}
	processtest.Leaks(t)
	u := newUser(t)
	host := processtest.Talk(t, u.Command("host "+shortDir(t)))
	if got := confined(u).Says(t, "ask "+host.Answer()); got != admitted {
		t.Errorf("a process with no_new_privs: %s", got)
	}
	host = processtest.Talk(t, u.Command("unmarkable host "+shortDir(t)))
	socket := host.Answer()
	if got := u.Says(t, "ask "+socket); got != admitted {
		t.Errorf("the user, where there is no mark: %s", got)
	}
	if got := confined(u).Says(t, "ask "+socket); !strings.Contains(got, "NoNewPrivs") {
		t.Errorf("a process that cannot be told from a child: %s", got)
	}
	for _, script := range []string{"ask", "shell ask", "escape ask", "escape inherit"} {
		if got := host.Tell("plain " + script + " " + socket); got == admitted || !strings.Contains(got, "host") {
			t.Errorf("a child, where there is no mark: %s: %s", script, got)
		}
	}
}

// unmarkable runs a host that cannot lower its children's limits.
func unmarkable(step string) {
	_ = unix.Setrlimit(sweep.ResourceLocks, &unix.Rlimit{})
	_, state, _ := strings.Cut(step, " ")
	hostVerb(state)
}

// TestChildrenWithPrivileges: a child that may gain privileges is recognised by its ancestors and environment.
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
		if got := host.Tell("privileged " + script + after); !strings.Contains(got, "was started by an extension") {
			t.Errorf("%s: %s", script, got)
		}
	}
	if got := u.Says(t, "ask "+socket); got != admitted {
		t.Errorf("the user: %s", got)
	}
}

// TestRefusalOfHiddenProcess: where /proc hides processes, the refusal says so and what to do.
func TestRefusalOfHiddenProcess(t *testing.T) {
	hides := func() string { return "hidden; next" }
	if why := refusal(os.Getpid(), false, lineage.Unknown, hides); !strings.HasSuffix(why, ": hidden; next") {
		t.Error(why)
	}
	if why := refusal(os.Getpid(), false, lineage.Unknown, func() string { return "" }); !strings.Contains(why,
		"no_new_privs") {
		t.Error(why)
	}
	if why := refusal(os.Getpid(), false, lineage.Unrelated, hides); why != "" {
		t.Error(why)
	}
}

// tight acts as a host whose descriptors are all in use but one.
func tight(state string) {
	d, err := Claim(state, "", Info{})
	if err != nil {
		fmt.Println(err)
		return
	}
	l := d.Listener(slog.New(slog.DiscardHandler))
	defer l.Close()
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64})
	for last := -1; ; {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			_ = unix.Close(last)
			break
		}
		last = fd
	}
	fmt.Println(d.Info().Socket)
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		judge(conn)
	}
}

// TestLastDescriptor: the operator is admitted where there is a descriptor for the connection, and none to find out who
// asks.
func TestLastDescriptor(t *testing.T) {
	processtest.Leaks(t)
	u := newUser(t)
	host := u.Command("tight " + shortDir(t))
	_, out := processtest.Piped(t, host)
	defer func() { _ = host.Process.Kill(); _ = host.Wait() }()
	socket, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got := u.Says(t, "ask "+strings.TrimSpace(socket)); got != admitted {
			t.Errorf("the user: %s", got)
		}
	}
}

// TestRefusalWithoutDescriptors: a host that cannot look at a process for want of descriptors says so, and nothing else
// about the process.
func TestRefusalWithoutDescriptors(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[1])
	f := os.NewFile(uintptr(ends[0]), "")
	conn, err := net.FileConn(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	why := Refusal(conn)
	_, visible := lineage.Nested(os.Getpid())
	socket := lineage.OfSocket(1, os.Geteuid())
	hidden := refusal(os.Getpid(), false, lineage.Unknown, lineage.Hiding)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	for _, why := range []string{why, hidden} {
		if !strings.HasSuffix(why, ": "+lineage.NoDescriptor) {
			t.Error(why)
		}
	}
	if visible || socket != lineage.Unknown {
		t.Errorf("the process counts as visible: %t; the holders of a socket: %d", visible, socket)
	}
}
