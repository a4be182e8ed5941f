package lineage

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/proc/containment/sweep"
)

// process is what /proc says of a process to everybody.
type process struct {
	pid, parent int
	uid         int    // the real one
	start       uint64 // clock ticks since boot; with the pid it is unique
	limit       uint64 // its mark, see package sweep
	noNewPrivs  bool
	filters     int  // seccomp filters; -1 if the kernel does not say
	nested      bool // in a pid namespace below that of /proc
	dead        bool // all its threads have ended
}

func (p process) file(name string) string { return "/proc/" + strconv.Itoa(p.pid) + "/" + name }

// read returns the process pid; false if it is gone or hidden.
func read(pid int) (process, bool) {
	p := process{pid: pid, filters: -1}
	stat, err := os.ReadFile(p.file("stat"))
	if err != nil {
		return p, false
	}
	// Fields after the name, which may hold any character; the start time is the 20th.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return p, false
	}
	p.dead = fields[0][0] == 'Z' || fields[0][0] == 'X'
	p.start, _ = strconv.ParseUint(string(fields[19]), 10, 64)
	p.parent, _ = strconv.Atoi(string(fields[1]))
	status, err := os.ReadFile(p.file("status"))
	if err != nil {
		return p, false
	}
	privileges, limited := false, false
	for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		switch name {
		case "Uid":
			ids := strings.Fields(value)
			p.uid, _ = strconv.Atoi(ids[0])
		case "NoNewPrivs":
			p.noNewPrivs, privileges = value != "0", true
		case "Seccomp_filters":
			p.filters, _ = strconv.Atoi(value)
		case "Threads": // more than one: others run after the end of the first
			p.dead = p.dead && value == "1"
		case "NSpid":
			p.nested = len(strings.Fields(value)) > 1
		}
	}
	p.limit, limited = sweep.Limit(pid)
	return p, privileges && limited // the line is there since Linux 4.10
}
