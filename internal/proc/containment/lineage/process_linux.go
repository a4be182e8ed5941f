package lineage

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/proc/containment/sweep"
)

// process holds what /proc tells every user about a process.
type process struct {
	pid, parent int
	uid         int    // real uid
	start       uint64 // clock ticks since boot; pid and start together are unique
	limit       uint64 // its mark, see package sweep
	noNewPrivs  bool
	filters     int  // number of seccomp filters; -1 if unknown
	nested      bool // in a pid namespace below the one of /proc
	dead        bool // all its threads have ended
}

func (p process) file(name string) string { return "/proc/" + strconv.Itoa(p.pid) + "/" + name }

// errIncomplete is returned for a process that /proc does not tell enough about.
var errIncomplete = errors.New("/proc does not tell enough about the process")

// read returns the process pid. The error says why it is not visible: it has ended or is hidden, or no descriptor is
// left, see [file.Exhausted].
func read(pid int) (process, error) {
	p := process{pid: pid, filters: -1}
	stat, err := os.ReadFile(p.file("stat"))
	if err != nil {
		return p, err
	}
	// The name may contain any character. The start time is the 20th field after it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return p, errIncomplete
	}
	p.dead = fields[0][0] == 'Z' || fields[0][0] == 'X'
	p.start, _ = strconv.ParseUint(string(fields[19]), 10, 64)
	p.parent, _ = strconv.Atoi(string(fields[1]))
	status, err := os.ReadFile(p.file("status"))
	if err != nil {
		return p, err
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
		case "Threads": // other threads may outlive the first one
			p.dead = p.dead && value == "1"
		case "NSpid":
			p.nested = len(strings.Fields(value)) > 1
		}
	}
	if p.limit, limited = sweep.Limit(pid); !privileges || !limited { // the line NoNewPrivs exists since Linux 4.10
		return p, errIncomplete
	}
	return p, nil
}
