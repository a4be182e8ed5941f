package process

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// procStat is what identifies a process and its place among others. Pid and
// start together never name two processes.
type procStat struct {
	pid, parent, session int
	start                uint64 // clock ticks since the system's start
	dead, exiting        bool
}

// exitingFlag is that of a task which has begun to exit (PF_EXITING).
const exitingFlag = 0x4

// procReader reads small files of /proc into one buffer.
type procReader struct{ buf []byte }

// maxEnviron bounds what is read of an environment.
const maxEnviron = 8 << 20

// read returns the content of /proc/pid/name, valid until the next call; nil when
// the process is gone or is none of our business.
func (r *procReader) read(pid int, name string) []byte {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
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

// stat returns what /proc says of pid.
func (r *procReader) stat(pid int) (s procStat, ok bool) {
	content := r.read(pid, "stat")
	// After the name, which may hold anything: state, parent, group, session,
	// terminal, its group, flags, …, the start time as the 20th.
	f := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	if len(f) < 20 {
		return s, false
	}
	number := func(i int) int { n, _ := strconv.Atoi(string(f[i])); return n }
	s = procStat{pid: pid, parent: number(1), session: number(3), dead: f[0][0] == 'Z' || f[0][0] == 'X', exiting: number(6)&exitingFlag != 0}
	s.start, _ = strconv.ParseUint(string(f[19]), 10, 64)
	return s, true
}

// marked reports whether pid was started with an environment that holds mark, or
// when that ends with ".", any mark of that host. One without any environment is
// blank: it may be about to become another program, and has none for that moment.
func (r *procReader) marked(pid int, mark []byte) (marked, blank bool) {
	environ := r.read(pid, "environ")
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		marks, ok := bytes.CutPrefix(kv, []byte(cookieVar+"="))
		if !ok {
			continue
		}
		for m := range bytes.SplitSeq(marks, []byte{' '}) {
			if bytes.Equal(m, mark) || mark[len(mark)-1] == '.' && bytes.HasPrefix(m, mark) {
				return true, false
			}
		}
	}
	return false, environ != nil && len(environ) == 0
}

// pids returns the processes that there are.
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

// startTime returns when pid started, 0 when that cannot be known.
func startTime(pid int) uint64 {
	r := procReader{buf: make([]byte, 1<<10)} // for one short file
	s, _ := r.stat(pid)
	return s.start
}

// held is what holds each child whatever else does.
func held() (holds, lacks []string) {
	holds = append(holds, HoldsGroup)
	if startTime(os.Getpid()) == 0 {
		return holds, append(lacks, HoldsSweep+": /proc cannot be read")
	}
	if untraced.Load() {
		lacks = append(lacks, "limits from the first instruction on: tracing is forbidden, so they are set right after it")
	}
	return append(holds, HoldsSweep), lacks
}
