package sweep

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// stat holds the fields of /proc/pid/stat that identify a process and its relatives. pid and start together are unique.
type stat struct {
	pid, parent, session int
	start                uint64 // clock ticks since boot
	dead, exiting        bool
	stopped              bool // by a signal or a debugger
	kernel               bool // thread of the kernel
	bare                 bool // has an empty environment, and is not in the middle of an exec

	// Set by [reader.addMarks].
	marks []byte // value of CookieVar
	limit uint64 // its mark; 0 if unknown
	blank bool   // in the middle of an exec, where there is no environment yet: read it again
}

// Flags of a task: PF_EXITING, and PF_KTHREAD, which has no environment.
const (
	exitingFlag = 0x4
	kernelFlag  = 0x200000
)

// reader reads small files of /proc into one reused buffer.
type reader struct{ buf []byte }

// maxEnviron bounds how much of an environment is read.
const maxEnviron = 8 << 20

// read returns the content of /proc/pid/name, valid until the next call; nil if the process has ended or may not be
// read.
func (r *reader) read(pid int, name string) []byte { return r.file(strconv.Itoa(pid) + "/" + name) }

// file is [reader.read] for any file of /proc.
func (r *reader) file(name string) []byte {
	fd, err := unix.Open("/proc/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	if r.buf == nil {
		r.buf = make([]byte, 16<<10)
	}
	n := 0
	for {
		if n == len(r.buf) {
			if n >= maxEnviron {
				return r.buf[:n]
			}
			r.buf = append(r.buf, make([]byte, n)...)
		}
		m, err := unix.Read(fd, r.buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || m == 0 {
			return r.buf[:n]
		}
		n += m
	}
}

func (r *reader) stat(pid int) (s stat, ok bool) {
	content := r.read(pid, "stat")
	// The name may contain any character. After it come state, parent, group, session, terminal, its group, flags, …;
	// the start time is the 20th.
	f := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	if len(f) < 20 {
		return s, false
	}
	number := func(i int) int { n, _ := strconv.Atoi(string(f[i])); return n }
	s = stat{
		pid:     pid,
		parent:  number(1),
		session: number(3),
		dead:    f[0][0] == 'Z' || f[0][0] == 'X',
		exiting: number(6)&exitingFlag != 0,
		kernel:  number(6)&kernelFlag != 0,
		stopped: f[0][0] == 'T' || f[0][0] == 't',
	}
	s.start, _ = strconv.ParseUint(string(f[19]), 10, 64)
	if len(f) > 48 { // endcode, which an exec sets after env_start and env_end; all are 0 until then
		s.bare = string(f[24]) != "0" && string(f[47]) == string(f[48]) && string(f[48]) != "0"
	}
	return s, true
}

// lastPID returns the pid that the system has given last, to a process or a thread; 0 if unknown.
func (r *reader) lastPID() int {
	f := bytes.Fields(r.file("loadavg"))
	if len(f) < 5 {
		return 0
	}
	pid, _ := strconv.Atoi(string(f[4]))
	return pid
}

// look is what one scan of /proc has read.
type look struct {
	processes []stat
	// forks is set if a process was started meanwhile: the scan may have missed it, and its parent may have ended
	// before the scan came to it.
	forks bool
}

// processes returns all processes except skip. Marks are read only for those that run and started at or after since.
func (r *reader) processes(skip map[int]bool, since uint64) (seen look) {
	before := r.lastPID()
	defer func() { seen.forks = before == 0 || before != r.lastPID() }()
	for _, pid := range pids() {
		if skip[pid] {
			continue
		}
		s, ok := r.stat(pid)
		if !ok {
			continue
		}
		if !s.dead && !s.kernel && s.start >= since {
			r.addMarks(&s)
		}
		seen.processes = append(seen.processes, s)
	}
	return seen
}

// addMarks reads the marks of s.
func (r *reader) addMarks(s *stat) {
	s.limit, _ = r.limit(s.pid)
	environ := r.read(s.pid, "environ")
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		if marks, ok := bytes.CutPrefix(kv, []byte(CookieVar+"=")); ok {
			s.marks = bytes.Clone(marks)
			return
		}
	}
	s.blank = environ != nil && len(environ) == 0 && !s.bare
}

// hasMark reports whether marks contains mark or, if mark ends with ".", any mark that begins with it.
func hasMark(marks, mark []byte) bool {
	for m := range bytes.SplitSeq(marks, []byte{' '}) {
		if len(mark) > 0 && bytes.Equal(m, mark) || bytes.HasSuffix(mark, []byte{'.'}) && bytes.HasPrefix(m, mark) {
			return true
		}
	}
	return false
}

func pids() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// StartTime returns the start time of pid in clock ticks since boot; 0 if unknown.
func StartTime(pid int) uint64 {
	r := reader{buf: make([]byte, 1<<10)} // for one short file
	s, _ := r.stat(pid)
	return s.start
}

// Dying reports whether pid is exiting or has exited.
func Dying(pid int) bool {
	var r reader
	s, ok := r.stat(pid)
	return !ok || s.dead || s.exiting
}

// Stopped reports whether pid is stopped by a signal or a debugger.
func Stopped(pid int) bool {
	var r reader
	s, ok := r.stat(pid)
	return ok && s.stopped
}
