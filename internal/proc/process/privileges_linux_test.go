package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/proc/sandbox/confine"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// nobody is the unprivileged user of tests that run as root.
const nobody = 65534

// selfExe is the test binary, in a form that users can run who cannot enter its directory.
const selfExe = "/proc/self/exe"

func init() {
	verbs["privileges"] = func(string) { fmt.Println(privileges("/proc/self/status")) }
	verbs["euid"] = func(string) { fmt.Println(os.Geteuid()) }
	verbs["setuid"] = func(id string) {
		n, _ := strconv.Atoi(id)
		for _, err := range []error{syscall.Setgroups(nil), syscall.Setgid(n), syscall.Setuid(n)} {
			if err != nil {
				fmt.Println(err)
			}
		}
	}
	verbs["spy"] = func(string) { fmt.Println("saw", spy(os.Getppid())) }
	verbs["run"] = func(args string) { run(args, false) }
	verbs["lax"] = func(args string) { run(args, true) }
	verbs["census"] = census
	verbs["forbid"] = func(string) { forbidNoNewPrivs() }
}

// run is a host that starts PROGRAM, which runs the script STEPS, and prints its output.
func run(args string, newPrivileges bool) {
	program, steps, _ := strings.Cut(args, " ")
	p, err := Start(context.Background(),
		Spec{Path: program, Env: processtest.Env(strings.ReplaceAll(steps, ",", ";")), NewPrivileges: newPrivileges})
	if err != nil {
		fmt.Println(err)
		return
	}
	p.Stdin.Close()
	out := p.CollectStdout(1 << 20)
	<-p.Done()
	data, _ := out.End(drainWait)
	fmt.Printf("%s", data)
}

// privileges returns values of a status file of /proc: no_new_privs, then the permitted, effective, ambient and, for
// root, the bounding capabilities. Other users' bounding sets matter only for file capabilities, which no_new_privs
// disables.
func privileges(file string) string {
	status, _ := os.ReadFile(file)
	of := make(map[string]string)
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		of[name] = strings.TrimSpace(value)
	}
	for _, set := range []string{"CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		of[set] = strings.TrimLeft(of[set], "0")
	}
	text := fmt.Sprintf("nnp=%s prm=%s eff=%s amb=%s", of["NoNewPrivs"], of["CapPrm"], of["CapEff"], of["CapAmb"])
	if os.Geteuid() == 0 {
		text += " bnd=" + of["CapBnd"]
	}
	return text
}

// restrictedPrivileges returns the privileges of a child that this process starts without NewPrivileges.
func restrictedPrivileges(t *testing.T) string {
	if os.Geteuid() != 0 {
		return "nnp=1 prm= eff= amb="
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
	kept := strconv.FormatUint((uint64(caps[1].Permitted)<<32|uint64(caps[0].Permitted))&confine.KeptCapabilities, 16)
	return "nnp=1 prm=" + kept + " eff=" + kept + " amb= bnd=" + kept
}

// Children of all kinds gain no privileges, and as root have only some capabilities. With NewPrivileges they have the
// host's. [TestIsolatedUnprivileged] runs this test too.
func TestPrivileges(t *testing.T) {
	processtest.Leaks(t)
	// another test may have locked the main thread
	want, own := restrictedPrivileges(t), privileges("/proc/thread-self/status")
	for name, mod := range map[string]func(*Spec){
		"plain":    func(*Spec) {},
		"limited":  func(s *Spec) { s.Limits = limited.Limits{OpenFiles: 64} },
		"isolated": isolated(t),
		"both":     func(s *Spec) { isolated(t)(s); s.Limits = limited.Limits{OpenFiles: 64} },
	} {
		p := start(t, "privileges; fork privileges; close; eof", mod)
		for _, who := range []string{"child", "grandchild"} {
			if got := p.line(); got != want {
				t.Errorf("%s %s: %s, want %s", name, who, got, want)
			}
		}
		p = start(t, "privileges; eof", func(s *Spec) { mod(s); s.NewPrivileges = true })
		if got := p.line(); got != own {
			t.Errorf("%s with new privileges: %s, want %s", name, got, own)
		}
	}
}

// spy tries everything that could reveal the secrets of a process and its threads, and returns what succeeded.
func spy(pid int) (saw []string) {
	dir := fmt.Sprint("/proc/", pid)
	tasks, _ := filepath.Glob(dir + "/task/[0-9]*")
	for _, at := range append(tasks, dir) {
		for _, name := range []string{"environ", "maps", "auxv", "stack"} {
			if data, err := os.ReadFile(at + "/" + name); err == nil && (len(data) > 0 || name != "environ") {
				saw = append(saw, name)
			}
		}
		if f, err := os.OpenFile(at+"/mem", os.O_RDWR, 0); err == nil {
			f.Close()
			saw = append(saw, "mem")
		}
		for _, name := range []string{"exe", "fd/0"} {
			if _, err := os.Readlink(at + "/" + name); err == nil {
				saw = append(saw, name)
			}
		}
		id, _ := strconv.Atoi(filepath.Base(at))
		runtime.LockOSThread()
		if err := unix.PtraceSeize(id); err == nil {
			saw = append(saw, "trace")
			_ = unix.PtraceInterrupt(id)
			_, _ = unix.Wait4(id, nil, unix.WALL, nil)
			_ = unix.PtraceDetach(id)
		}
		runtime.UnlockOSThread()
	}
	var page [8]byte
	local, remote := []unix.Iovec{
		{Base: &page[0], Len: 8},
	}, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&verbs)), Len: 8}}
	if _, err := unix.ProcessVMReadv(pid, local, remote, 0); err == nil || err == unix.EFAULT {
		saw = append(saw, "process_vm_readv")
	}
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		if _, err := unix.PidfdGetfd(fd, 0, 0); err == nil {
			saw = append(saw, "pidfd_getfd")
		}
	}
	slices.Sort(saw)
	return slices.Compact(saw)
}

// A setuid program does not change the user of an unprivileged host's child.
func TestSetuidProgram(t *testing.T) {
	processtest.Leaks(t)
	dir := sharedDir(t)
	program := copySelf(t, dir, "helper")
	if err := os.Chmod(program, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	for verb, want := range map[string]string{"run": strconv.Itoa(nobody), "lax": "0"} {
		if got := as(t, nobody, verb+" "+program+" euid"); got != want+"\n" {
			t.Errorf("%s: the effective user is %q, want %s", verb, got, want)
		}
	}
}

// sharedDir returns a directory that every user can enter. It skips the test unless root runs it, who alone can create
// setuid programs.
func sharedDir(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("NOT TESTED: %s: it takes root", t.Name())
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func copySelf(t *testing.T, dir, name string) string {
	t.Helper()
	program, err := os.ReadFile(selfExe)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, filepath.Join(dir, name), string(program), 0o755)
}

// as runs script as another user, with these ambient capabilities, and returns its output.
func as(t *testing.T, id uint32, script string, ambient ...uintptr) string {
	t.Helper()
	cmd := exec.Command(selfExe)
	cmd.Dir, cmd.Env = "/", processtest.Env(script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}, AmbientCaps: ambient}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// Children do not get the host's ambient capabilities.
func TestAmbientCapabilities(t *testing.T) {
	processtest.Leaks(t)
	sharedDir(t)
	for verb, want := range map[string]string{
		"run": "nnp=1 prm= eff= amb=\n",
		"lax": "nnp=0 prm=400 eff=400 amb=400\n",
	} {
		if got := as(t, nobody, verb+" "+selfExe+" privileges", unix.CAP_NET_BIND_SERVICE); got != want {
			t.Errorf("%s: %s, want %s", verb, got, want)
		}
	}
}

// If the bounding set may not be changed, children of root have the same capabilities.
func TestPrivilegesWithoutSetpcap(t *testing.T) {
	processtest.Leaks(t)
	sharedDir(t)
	var got string
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // without unlock, the thread ends with the goroutine
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SETPCAP, 0, 0, 0); err != nil {
			t.Error(err)
			return
		}
		got = as(t, 0, "run "+selfExe+" privileges")
	}()
	<-done
	kept := strconv.FormatUint(confine.KeptCapabilities&^(1<<unix.CAP_SETPCAP), 16)
	if want := "nnp=1 prm=" + kept + " eff=" + kept + " amb= "; !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s…", got, want)
	}
}

// A child whose privileges cannot be limited is not started, and the error tells why.
func TestPrivilegesRefused(t *testing.T) {
	processtest.Leaks(t)
	sharedDir(t)
	got := as(t, 0, "forbid; run "+selfExe+" out started; lax "+selfExe+" out lax")
	if !strings.HasPrefix(got, "cannot start "+selfExe+
		": it cannot be kept from gaining privileges (set no_new_privs: operation not permitted)") ||
		!strings.HasSuffix(got, "new_privileges = true for the extension or destination\nlax\n") {
		t.Error(got)
	}
}

// forbidNoNewPrivs makes the setting of no_new_privs fail in this process.
func forbidNoNewPrivs() {
	const number, argument = 0, 16 // offsets in seccomp_data; the lower half, on little endian machines
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PRCTL, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: argument},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.PR_SET_NO_NEW_PRIVS, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&filter))); errno != 0 {
		fmt.Println(errno)
	}
}

// A root host ends a child that has changed its user, and the child's daemons.
func TestKillsChildrenOfOtherUsers(t *testing.T) {
	processtest.Leaks(t)
	sharedDir(t)
	c := contain(t)
	p := start(t, "setuid "+strconv.Itoa(nobody)+"; daemon euid, pid, ignore, hang; hang",
		func(s *Spec) { s.Path, s.Containment = selfExe, c })
	p.expect(strconv.Itoa(nobody))
	daemon, err := strconv.Atoi(p.line())
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	p.ended()
	gone(t, []int{daemon}, patience)
}

// census starts N children and reports the threads of this process. Everything runs on one processor, so that the main
// thread is used too.
func census(n string) {
	runtime.GOMAXPROCS(1)
	count, _ := strconv.Atoi(n)
	cat, _ := Resolve("cat", "/", "/bin:/usr/bin")
	begin := func() *Process {
		p, err := Start(context.Background(), Spec{Path: cat})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return p
	}
	end := func(p *Process) {
		p.Stdin.Close()
		<-p.Done()
		p.Stdout.Close()
	}
	longest := begin()
	for range count {
		end(begin())
	}
	fmt.Println("restricted while a child lives:", len(restrictedThreads()))
	end(longest)
	for range count {
		end(begin())
	}
	left := restrictedThreads()
	for began := time.Now(); len(left) > 0 && time.Since(began) < patience; left = restrictedThreads() {
		time.Sleep(time.Millisecond) // the end of a thread cannot be waited for
	}
	fmt.Println("restricted afterwards:", left)
	tasks, _ := filepath.Glob("/proc/self/task/*")
	fmt.Println("many threads:", len(tasks) > 20)
}

// restrictedThreads returns the ids of the threads of this process that have no_new_privs.
func restrictedThreads() (ids []string) {
	files, _ := filepath.Glob("/proc/self/task/*/status")
	for _, file := range files {
		if strings.HasPrefix(privileges(file), "nnp=1 ") {
			ids = append(ids, filepath.Base(filepath.Dir(file)))
		}
	}
	return ids
}

// The threads of a host, even the main one, keep their privileges, and their number does not grow.
func TestThreadsOfHost(t *testing.T) {
	processtest.Leaks(t)
	p := start(t, "census 250; close; eof", func(s *Spec) { s.NewPrivileges = true })
	p.expect("restricted while a child lives: 1")
	p.expect("restricted afterwards: []")
	p.expect("many threads: false")
}
