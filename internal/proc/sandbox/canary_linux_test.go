package sandbox_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	ask "github.com/exthost/exthost/manifest/sandbox"
)

func TestMain(m *testing.M) {
	if name := os.Getenv("CANARY"); name != "" {
		maps.Copy(attacks, attributes)
		maps.Copy(attacks, networks)
		if err := attacks[name](); err != nil {
			fmt.Println("held:", err)
		} else {
			fmt.Println("through")
		}
		os.Exit(0)
	}
	processtest.Main(m, nil)
}

// attacks are attempts to break out of a sandbox. They return nil if they succeed.
var attacks = map[string]func() error{
	"read ~/.ssh":               func() error { return read(os.Getenv("HOME") + "/.ssh/id_rsa") },
	"read ~/.aws":               func() error { return read(os.Getenv("HOME") + "/.aws/credentials") },
	"list ~":                    func() error { _, err := os.ReadDir(os.Getenv("HOME")); return err },
	"read by /proc/self/root":   func() error { return read("/proc/self/root" + os.Getenv("HOME") + "/.ssh/id_rsa") },
	"read the operator's token": func() error { return read(os.Getenv("PRIVATE") + "/token") },
	"read another's state":      func() error { return read(os.Getenv("PRIVATE") + "/other/notes") },
	"link to a secret": func() error {
		link := os.Getenv("STATE") + "/link"
		_ = os.Remove(link)
		if err := os.Symlink(os.Getenv("HOME")+"/.ssh/id_rsa", link); err != nil {
			return err
		}
		return read(link)
	},
	"hard link to a secret": func() error {
		link := os.Getenv("STATE") + "/hard"
		_ = os.Remove(link)
		if err := os.Link(os.Getenv("HOME")+"/.ssh/id_rsa", link); err != nil {
			return err
		}
		return read(link)
	},
	"exec a shell that reads": func() error {
		return exec.Command("/bin/sh", "-c", `cat "$HOME/.ssh/id_rsa"`).Run()
	},
	"change its own manifest": func() error { return appendTo(os.Getenv("FOLDER") + "/plugin.toml") },
	"append to ~/.bashrc":     func() error { return appendTo(os.Getenv("HOME") + "/.bashrc") },
	"empty a file":            func() error { return unix.Truncate(os.Getenv("HOME")+"/.bashrc", 0) },
	"remove a file": func() error {
		return errors.Join(os.Remove(os.Getenv("HOME")+"/doomed"),
			os.WriteFile(os.Getenv("HOME")+"/doomed", nil, 0o600))
	},
	"rename into its state": func() error {
		return os.Rename(os.Getenv("HOME")+"/moved", os.Getenv("STATE")+"/moved")
	},
	"write to /tmp":           func() error { return appendTo("/tmp/exthost-canary-" + os.Getenv("HOSTPID")) },
	"write to the kernel":     func() error { return appendTo("/proc/sys/kernel/core_pattern") },
	"open a device":           func() error { return openAny("/dev/mem", "/dev/kmsg", "/dev/tty0", "/dev/ptmx") },
	"the host's environment":  func() error { return read("/proc/" + os.Getenv("HOSTPID") + "/environ") },
	"a sibling's environment": func() error { return read("/proc/" + os.Getenv("SIBLING") + "/environ") },
	"a sibling's arguments":   func() error { return read("/proc/" + os.Getenv("SIBLING") + "/cmdline") },
	"a sibling's memory":      func() error { return read("/proc/" + os.Getenv("SIBLING") + "/maps") },
	"ptrace a sibling": func() error {
		return errno(unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, sibling(), 0, 0, 0, 0))
	},
	"process_vm_readv": func() error {
		return errno(unix.Syscall6(unix.SYS_PROCESS_VM_READV, sibling(), 0, 0, 0, 0, 0))
	},
	"pidfd_getfd": func() error {
		fd, err := unix.PidfdOpen(int(sibling()), 0)
		if err == nil {
			_, err = unix.PidfdGetfd(fd, 0, 0)
		}
		return err
	},
	"signal the host":  func() error { return unix.Kill(number("HOSTPID"), 0) },
	"signal a sibling": func() error { return unix.Kill(number("SIBLING"), 0) },
	"limit the host": func() error {
		return unix.Prlimit(number("HOSTPID"), unix.RLIMIT_NOFILE, nil, &unix.Rlimit{})
	},
	"connect to a service":  func() error { return dial("tcp", os.Getenv("TCP")) },
	"ask over UDP":          func() error { return dial("udp", os.Getenv("UDP")) },
	"a socket for metadata": func() error { return dial("udp", "169.254.169.254:53") },
	"a socket for IPv6": func() error {
		_, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0)
		return err
	},
	"docker's socket":    func() error { return dial("unix", os.Getenv("UNIX")) },
	"an abstract socket": func() error { return dial("unix", os.Getenv("ABSTRACT")) },
	"a socket by a pair": func() error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: os.Getenv("DGRAM")})
		}
		return err
	},
	"a packet socket": func() error { _, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0); return err },
	"a socket to the hypervisor": func() error {
		_, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
		return err
	},
	"gain by setuid": func() error {
		if n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); n != 0 || err != nil {
			return fmt.Errorf("no_new_privs is %d, %v", n, err)
		}
		return nil
	},
	"io_uring": func() error {
		var params [120]byte
		return errno(unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)), 0))
	},
	"keyctl": func() error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true); return err },
	"add_key": func() error {
		_, err := unix.AddKey("user", "canary", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	},
	"mount": func() error {
		dir := os.Getenv("STATE") + "/mount"
		_ = os.Mkdir(dir, 0o700)
		err := unix.Mount("none", dir, "tmpfs", 0, "")
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		return err
	},
	"fsopen":  func() error { _, err := unix.Fsopen("tmpfs", 0); return err },
	"chroot":  func() error { return unix.Chroot("/") },
	"unshare": func() error { return unix.Unshare(unix.CLONE_NEWUTS) },
	"a user namespace": func() error {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
		return cmd.Run()
	},
	"setns": func() error {
		fd, err := unix.Open("/proc/self/ns/uts", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return unix.Setns(fd, unix.CLONE_NEWUTS)
	},
	"bpf": func() error {
		attr := struct{ kind, key, value, entries uint32 }{2, 4, 4, 1}
		return errno(unix.Syscall(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr)))
	},
	"userfaultfd": func() error { return errno(unix.Syscall(unix.SYS_USERFAULTFD, 1, 0, 0)) }, // for user mode only
	"perf_event_open": func() error {
		attr := unix.PerfEventAttr{
			Type:   unix.PERF_TYPE_SOFTWARE,
			Config: unix.PERF_COUNT_SW_TASK_CLOCK,
			Bits:   unix.PerfBitExcludeKernel,
		}
		attr.Size = uint32(unsafe.Sizeof(attr))
		_, err := unix.PerfEventOpen(&attr, 0, -1, -1, 0)
		return err
	},
	"open_by_handle_at": func() error {
		handle, mount, err := unix.NameToHandleAt(unix.AT_FDCWD, os.Getenv("HOME")+"/.ssh/id_rsa", 0)
		if err != nil {
			return err
		}
		_ = mount
		dir, err := unix.Open(os.Getenv("STATE"), unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err == nil {
			_, err = unix.OpenByHandleAt(dir, handle, unix.O_RDONLY)
		}
		return err
	},
	"type on the terminal":     func() error { return tiocsti(unix.TIOCSTI) },
	"type with a long request": func() error { return tiocsti(unix.TIOCSTI | 1<<32) },
	"shared memory":            func() error { return errno(unix.Syscall(unix.SYS_SHMGET, 0, 4096, 0o1600)) },
	"a call of the other interface": func() error { // x32, or 32 bits
		program := os.Getenv("STATE") + "/exit32"
		if err := os.WriteFile(program, exit32, 0o700); err != nil {
			return err
		}
		return exec.Command(program).Run()
	},
	"become another user": func() error { return unix.Setresuid(12345, 12345, 12345) },
	"give a file away":    func() error { return os.Lchown(os.Getenv("HOME")+"/.bashrc", 12345, 12345) },
	"make a file run as its owner": func() error {
		return unix.Chmod(os.Getenv("HOME")+"/doomed", unix.S_ISUID|0o755)
	},
	"give a file capabilities": func() error {
		return unix.Setxattr(os.Getenv("HOME")+"/doomed", "security.capability",
			[]byte("\x01\x00\x00\x02\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), 0)
	},
	"rename out of its state": func() error { return os.Rename(os.Getenv("STATE")+"/y", os.Getenv("HOME")+"/planted") },
	"link out of its state":   func() error { return os.Link(os.Getenv("STATE")+"/x", os.Getenv("HOME")+"/linked") },
	"write through a link": func() error {
		link := os.Getenv("STATE") + "/out"
		_ = os.Remove(link)
		if err := os.Symlink(os.Getenv("HOME"), link); err != nil {
			return err
		}
		return appendTo(link + "/.bashrc")
	},
	"the host's memory": func() error { return openAny("/proc/" + os.Getenv("HOSTPID") + "/mem") },
	"its own /proc":     func() error { return openAny("/proc/self/mem") },
	"a sibling's files": func() error {
		_, err := os.ReadDir("/proc/" + os.Getenv("SIBLING") + "/root" + os.Getenv("HOME"))
		return err
	},
	"a descriptor of the host":      func() error { var info unix.Stat_t; return unix.Fstat(number("HOSTFD"), &info) },
	"connect to the control socket": func() error { return dial("unix", os.Getenv("PRIVATE")+"/control.sock") },
	"ask a name server":             func() error { return dial("udp", "127.0.0.53:53") },
	"metadata over TCP": func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrInet4{Port: 80, Addr: [4]byte{169, 254, 169, 254}})
		}
		if errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.ENETUNREACH) {
			return nil // it could try
		}
		return err
	},
	"clone3 into namespaces": func() error {
		args := [11]uint64{unix.CLONE_NEWUSER | unix.CLONE_NEWNS}
		args[4] = uint64(unix.SIGCHLD)
		pid, _, e := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
		if e == 0 && pid == 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		return errno(0, 0, e)
	},
	"renice all of the user": reniceUser,
	"renice the host":        func() error { return unix.Setpriority(unix.PRIO_PROCESS, number("HOSTPID"), 0) },
	"schedule the host": func() error { // with nice values, by other calls than renice's
		var normal int32 // SCHED_OTHER with its only priority
		at := uintptr(unsafe.Pointer(&normal))
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr}
		for _, err := range []error{
			unix.SchedSetAttr(number("HOSTPID"), &attr, 0),
			errno(unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(number("HOSTPID")), 0, at)),
			errno(unix.Syscall(unix.SYS_SCHED_SETPARAM, uintptr(number("HOSTPID")), at, 0)),
		} {
			if err == nil {
				return nil
			}
		}
		return unix.EPERM
	},
	"pin the host to processors": func() error {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(number("HOSTPID"), &set); err != nil {
			return err
		}
		return unix.SchedSetaffinity(number("HOSTPID"), &set)
	},
	// a filter refuses it before the kernel looks up the family or loads a module
	"a pair of another family": func() error {
		_, err := unix.Socketpair(unix.AF_TIPC, unix.SOCK_RDM, 0)
		if errors.Is(err, unix.EAFNOSUPPORT) {
			return nil
		}
		return err
	},
	"run from memory what reads": func() error { // running it is allowed, as what runs is confined as well
		fd, err := unix.MemfdCreate("canary", 0)
		if err != nil {
			return err
		}
		code, err := os.ReadFile("/bin/cat")
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), "canary")
		if _, err := f.Write(code); err != nil {
			return err
		}
		cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", 3), os.Getenv("HOME")+"/.ssh/id_rsa")
		cmd.ExtraFiles = []*os.File{f}
		return cmd.Run()
	},
}

// reniceUser asks for a nice value that requires a privilege, after dropping that privilege: no process of the machine
// changes, whatever its nice value. The kernel returns EACCES once it has found a process to change.
func reniceUser() error {
	runtime.LockOSThread() // never unlocked: the thread ends, as it has fewer capabilities than others
	header, caps := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return err
	}
	caps[0].Effective &^= 1 << unix.CAP_SYS_NICE
	if err := unix.Capset(&header, &caps[0]); err != nil {
		return err
	}
	err := unix.Setpriority(unix.PRIO_USER, 0, -20)
	if err == unix.EACCES {
		return nil
	}
	return err
}

// exit32 is a 32-bit ELF program that ends at once with int 0x80.
var exit32 = append(append([]byte("\x7fELF\x01\x01\x01"), make([]byte, 9)...),
	"\x02\x00\x03\x00\x01\x00\x00\x00\x54\x80\x04\x08\x34\x00\x00\x00\x00\x00"+
		"\x00\x00\x00\x00\x00\x00\x34\x00\x20\x00\x01\x00\x00\x00\x00\x00\x00\x00"+
		"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x80\x04\x08\x00\x80\x04\x08"+
		"\x5d\x00\x00\x00\x5d\x00\x00\x00\x05\x00\x00\x00\x00\x10\x00\x00"+
		"\x31\xdb\x31\xc0\x40\xcd\x80\x90\x90"...)

func read(path string) error {
	data, err := os.ReadFile(path)
	if err == nil && len(data) == 0 {
		err = errors.New("nothing to read")
	}
	return err
}

func appendTo(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		f.Close()
	}
	return err
}

func openAny(paths ...string) (err error) {
	for _, path := range paths {
		f, e := os.OpenFile(path, os.O_RDWR, 0)
		if e == nil {
			f.Close()
			return nil
		}
		err = errors.Join(err, e)
	}
	return err
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("x"))
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) {
		return nil // it could send
	}
	return err
}

// tiocsti succeeds if the request is not refused: a pipe answers that it is not a terminal.
func tiocsti(request uintptr) error {
	b := byte('x')
	if e := errno(unix.Syscall(unix.SYS_IOCTL, 0, request, uintptr(unsafe.Pointer(&b)))); e != unix.ENOTTY {
		return e
	}
	return nil
}

func errno(_, _ uintptr, e unix.Errno) error {
	if e != 0 {
		return e
	}
	return nil
}

func number(name string) int { n, _ := strconv.Atoi(os.Getenv(name)); return n }

func sibling() uintptr { return uintptr(number("SIBLING")) }

// prey is the target of the attacks.
type prey struct {
	*testing.T
	folder, state string
	env           []string
	contained     *process.Containment
}

func newPrey(t *testing.T) *prey {
	t.Helper()
	dir := scratch(t)
	p := &prey{T: t, folder: dir + "/ext", state: dir + "/private/ext"}
	home, private := dir+"/home", dir+"/private"
	for file, text := range map[string]string{
		home + "/.ssh/id_rsa":      "secret",
		home + "/.aws/credentials": "secret",
		home + "/.bashrc":          "",
		home + "/doomed":           "",
		home + "/moved":            "x",
		private + "/token":         "secret",
		private + "/other/notes":   "secret",
		p.folder + "/plugin.toml":  "x",
		p.state + "/x":             "",
		p.state + "/y":             "",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listen := func(network, address string) net.Addr {
		var addr net.Addr
		if network == "udp" || network == "unixgram" {
			l, err := net.ListenPacket(network, address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			addr = l.LocalAddr()
		} else {
			l, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			addr = l.Addr()
		}
		return addr
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.contained = process.Contain(exe)
	t.Cleanup(p.contained.Close)
	victim, err := process.Start(t.Context(),
		process.Spec{Path: "/bin/cat", Env: []string{"API_TOKEN=secret"}, Containment: p.contained})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { victim.Kill(); <-victim.Done(); victim.Stdout.Close() })
	control, err := net.Listen("unix", private+"/control.sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { control.Close() })
	inherited, err := unix.Open(private+"/token", unix.O_RDONLY, 0) // as if left open by the host's parent
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(inherited) })
	if err := process.CloseOnExecAll(); err != nil {
		t.Fatal(err)
	}
	p.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "PRIVATE=" + private, "STATE=" + p.state, "FOLDER=" + p.folder,
		"HOSTFD=" + strconv.Itoa(inherited), "HOSTPID=" + strconv.Itoa(os.Getpid()),
		"SIBLING=" + strconv.Itoa(victim.PID()),
		"TCP=" + listen("tcp", "127.0.0.1:0").String(), "UDP=" + listen("udp", "127.0.0.1:0").String(),
		"UNIX=" + listen("unix", dir+"/docker.sock").String(), "DGRAM=" + listen("unixgram", dir+"/log.sock").String(),
		"ABSTRACT=" + listen("unix", "@exthost-canary-"+strconv.Itoa(os.Getpid())).String(),
	}
	t.Cleanup(func() { os.Remove("/tmp/exthost-canary-" + strconv.Itoa(os.Getpid())) })
	return p
}

// scratch returns a directory whose paths are short enough for sockets.
func scratch(t *testing.T) string {
	dir, err := os.MkdirTemp("", "c")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// attack runs an attack and returns its output.
func (p *prey) attack(t *testing.T, name string, mod func(*process.Spec)) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := process.Spec{Path: exe, Env: append(p.env, "CANARY="+name), Dir: p.folder, Containment: p.contained}
	mod(&s)
	child, err := process.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	out := child.CollectStdout(1 << 16)
	<-child.Done()
	text, _ := out.End(time.Second)
	child.Stdout.Close()
	return string(bytes.TrimSpace(text)) + strings.Join(child.Tail(), "\n")
}

// internet lists the attacks that only need an internet socket.
var internet = []string{
	"ask over UDP",
	"a socket for metadata",
	"metadata over TCP",
	"a socket for IPv6",
	"ask a name server",
}

// TestCanaries runs each attack without a sandbox, where it succeeds if docs/security.md says so,
// and in several kinds of sandboxes, where every attack must fail.
func TestCanaries(t *testing.T) {
	if stormtest.Racing() {
		t.Skip("hundreds of processes that each start slowly with the race detector, and share no memory")
	}
	processtest.Leaks(t)
	p := newPrey(t)
	policy, err := sandbox.Resolve(strictTable(),
		sandbox.Place{Dir: p.folder, State: p.state, Private: []string{filepath.Dir(p.state)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Check(); err != nil {
		t.Skipf("NOT TESTED: %s: %v", t.Name(), err)
	}
	networked := *policy
	networked.Net = ask.Net{ask.NetLoopback}
	ways := map[string]func(*process.Spec){
		"sandboxed":              func(s *process.Spec) { s.Sandbox = policy },
		"sandboxed and isolated": func(s *process.Spec) { s.Sandbox, s.Isolate = policy, true },
		"sandboxed and limited":  func(s *process.Spec) { s.Sandbox, s.Limits = policy, limited.Limits{OpenFiles: 64} },
		"with a network":         func(s *process.Spec) { s.Sandbox = &networked },
	}
	page := expectations(t)
	if diff := gocmp.Diff(slices.Sorted(maps.Keys(attacks)), slices.Sorted(maps.Keys(page))); diff != "" {
		t.Errorf("docs/security.md (-tried +listed):\n%s", diff)
	}
	for name := range attacks {
		t.Run(name, func(t *testing.T) {
			control := p.attack(t, name, func(s *process.Spec) { s.NewPrivileges = true })
			for way, mod := range ways {
				if way == "with a network" && slices.Contains(internet, name) {
					continue // TestNetwork has these
				}
				if got := p.attack(t, name, mod); !strings.HasPrefix(got, "held:") {
					t.Errorf("%s: %q", way, got)
				}
			}
			switch succeeds := control == "through"; page[name] {
			case "succeed":
				if !succeeds {
					t.Errorf("without a sandbox: %s", control)
				}
			case "succeed as root":
				if succeeds != (os.Geteuid() == 0) {
					t.Errorf("without a sandbox as user %d: %s", os.Geteuid(), control)
				}
			case "fail":
				if succeeds {
					t.Error("without a sandbox it gets through")
				}
			default:
				t.Logf("without a sandbox: %s", control)
			}
		})
	}
}

// expectations returns the outcome of each attack without a sandbox, according to docs/security.md.
func expectations(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(cmp.Or(os.Getenv("PAGE"), "../../../docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	by := make(map[string]string)
	for _, row := range regexp.MustCompile(
		`(?m)^\| (succeed|succeed as root|depend on the system|fail) \| (.*) \|$`).FindAllStringSubmatch(string(text),
		-1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1) {
			by[name[1]] = row[1]
		}
	}
	return by
}

// TestCanariesOfAUser is TestCanaries for an unprivileged user.
func TestCanariesOfAUser(t *testing.T) {
	if stormtest.Racing() {
		t.Skip("hundreds of processes that each start slowly with the race detector, and share no memory")
	}
	if os.Geteuid() != 0 {
		t.Skip("TestCanaries is this one")
	}
	dir := scratch(t) // other users cannot enter t.TempDir
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/security.md")
	if err := errors.Join(err, os.Chmod(dir, 0o777), os.WriteFile(dir+"/test", program, 0o755),
		os.WriteFile(dir+"/page", page, 0o644)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(dir+"/test", "-test.v", "-test.run",
		"^(TestCanaries|TestReadOnly|TestNetwork|TestWatch|TestReplacedProgram)$")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "PAGE=" + dir + "/page"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "NOT TESTED") {
		t.Skipf("NOT TESTED: %s", t.Name())
	}
	if err != nil || strings.Count(string(out), "\n--- PASS") != 5 {
		t.Errorf("%v\n%s", err, out)
	}
	if testing.Verbose() {
		t.Logf("%s", out)
	}
}

// An extension that writes nothing cannot change modes, owners and times either. With a mount namespace, one that
// writes only its state can change them nowhere else.
func TestReadOnly(t *testing.T) {
	if stormtest.Racing() {
		t.Skip("hundreds of processes that each start slowly with the race detector, and share no memory")
	}
	processtest.Leaks(t)
	p := newPrey(t)
	policy, err := sandbox.Resolve(&ask.Table{},
		sandbox.Place{Dir: p.folder, State: p.state, Private: []string{filepath.Dir(p.state)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Check(); err != nil {
		t.Skipf("NOT TESTED: %s: %v", t.Name(), err)
	}
	writes := *policy
	writes.Write = []string{p.state}
	for name := range attributes {
		t.Run(name, func(t *testing.T) {
			if got := p.attack(t, name, func(s *process.Spec) { s.Sandbox = policy }); !strings.HasPrefix(got,
				"held:") {
				t.Errorf("sandboxed: %q", got)
			}
			want := "held:"
			if strings.HasSuffix(name, "its state") {
				want = "through"
			}
			if got := p.attack(t, name,
				func(s *process.Spec) { s.Sandbox, s.Isolate = &writes, true }); !strings.HasPrefix(got, want) {
				t.Errorf("isolated, with a state to write: %q", got)
			}
			if got := p.attack(t, name, func(s *process.Spec) { s.NewPrivileges = true }); got != "through" {
				t.Errorf("without a sandbox: %q", got)
			}
		})
	}
}

// attributes are attacks that Landlock does not prevent.
var attributes = map[string]func() error{
	"change a mode": func() error { return os.Chmod(os.Getenv("HOME")+"/.bashrc", 0o666) },
	"change a mode by a descriptor": func() error {
		f, err := os.Open(os.Getenv("FOLDER") + "/plugin.toml")
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Chmod(0o666)
	},
	"change an owner": func() error { return os.Lchown(os.Getenv("HOME")+"/.bashrc", os.Getuid(), -1) },
	"change times": func() error {
		return os.Chtimes(os.Getenv("HOME")+"/.bashrc", time.Unix(1, 0), time.Unix(1, 0))
	},
	"set an attribute": func() error {
		return unix.Setxattr(os.Getenv("HOME")+"/.bashrc", "user.canary", []byte("x"), 0)
	},
	"write its state": func() error { return appendTo(os.Getenv("STATE") + "/new") },
	"change a mode in its state": func() error {
		return errors.Join(appendTo(os.Getenv("STATE")+"/own"), os.Chmod(os.Getenv("STATE")+"/own", 0o640))
	},
}

// An extension that may write its own folder could replace its program by a link to a secret. The rule for the program
// only allows an executable file that is not the host's.
func TestReplacedProgram(t *testing.T) {
	processtest.Leaks(t)
	p := newPrey(t)
	policy, err := sandbox.Resolve(&ask.Table{Write: []string{"bin"}},
		sandbox.Place{Dir: p.folder, State: p.state, Private: []string{filepath.Dir(p.state)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Check(); err != nil {
		t.Skipf("NOT TESTED: %s: %v", t.Name(), err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	policy.Read = append(policy.Read, exe)
	if err := os.Mkdir(p.folder+"/bin", 0o700); err != nil {
		t.Fatal(err)
	}
	home := strings.TrimPrefix(p.env[1], "HOME=")
	private := filepath.Dir(p.state)
	for name, to := range map[string]string{
		"read ~/.ssh":               home + "/.ssh/id_rsa",
		"list ~":                    home,
		"read another's state":      private + "/other",
		"read the operator's token": private + "/token",
	} {
		link := filepath.Join(p.folder, "bin", "program")
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe)
		cmd.Env = append(p.env, "CANARY="+name)
		var out bytes.Buffer
		cmd.Stdout = &out
		reaped, err := process.Launch(process.Spec{Path: link, Sandbox: policy}, cmd.Start)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err = cmd.Wait()
		reaped()
		if !strings.HasPrefix(out.String(), "held:") {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
		os.Remove(link)
	}
	_, err = process.Start(t.Context(), process.Spec{Path: hidden(t), Sandbox: policy})
	if failed, ok := errors.AsType[*process.StartError](err); !ok || failed.Reason != process.Sandbox ||
		!strings.Contains(err.Error(), "does not let it run") {
		t.Errorf("%v", err)
	}
}

// hidden returns a script whose interpreter no sandbox shows.
func hidden(t *testing.T) string {
	dir := scratch(t)
	for name, text := range map[string]string{"interpreter": "#!/bin/sh\n", "script": "#!" + dir + "/interpreter\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "script")
}

// A sandbox and NewPrivileges exclude each other.
func TestStartErrors(t *testing.T) {
	processtest.Leaks(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := process.Contain(exe)
	defer c.Close()
	for _, isolate := range []bool{false, true} {
		_, err := process.Start(t.Context(),
			process.Spec{
				Path:          "/bin/true",
				Sandbox:       &sandbox.Policy{},
				NewPrivileges: true,
				Containment:   c,
				Isolate:       isolate,
			})
		failed, ok := errors.AsType[*process.StartError](err)
		if !ok || failed.Reason != process.Sandbox || !strings.Contains(err.Error(), "remove new_privileges") {
			t.Errorf("isolated %v: %v", isolate, err)
		}
	}
}
