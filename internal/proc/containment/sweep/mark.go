package sweep

// A child's mark is its hard limit of file locks (RLIMIT_LOCKS), which the kernel has not used since Linux 2.4.25.
// Every descendant inherits the limit, whatever it does to its environment, session, parents and cgroups. A process can
// lower the limit, but raise it only with CAP_SYS_RESOURCE, which children do not have. So a process whose level is
// below a host's descends from a child of some host, and the exact limit names that child:
//
//	0 | level 3 | pid of the host 22 | low bits of the host's start time 10 | containment 12 | child 16
//
// Children are one level below their host; a host inside an extension can have children too.
const (
	levelShift       = 60
	pidShift         = 38
	startShift       = 28
	containmentShift = 16

	maxPID   = 1<<(levelShift-pidShift) - 1
	maxStart = 1<<(pidShift-startShift) - 1
	topLevel = 7

	// MaxContainment and MaxChild are the highest containment and child numbers that fit into a mark.
	MaxContainment = 1<<(startShift-containmentShift) - 1
	MaxChild       = 1<<containmentShift - 1
)

// Marks is an inclusive range of marks. The zero value is empty.
type Marks struct {
	First uint64 `json:"first,string"`
	Last  uint64 `json:"last,string"`
}

// Has reports whether limit is within m.
func (m Marks) Has(limit uint64) bool { return m.Last != 0 && m.First <= limit && limit <= m.Last }

// Level returns the level of a limit. Processes outside of hosts have the highest level.
func Level(limit uint64) int { return int(min(limit>>levelShift, topLevel)) }

// marksOf returns the marks for children of the process pid with the given start time and limit; empty if there is no
// level below that limit.
func marksOf(pid int, start, limit uint64) Marks {
	level := Level(limit) - 1
	if level < 0 {
		return Marks{}
	}
	first := uint64(level)<<levelShift | uint64(pid)&maxPID<<pidShift | start&maxStart<<startShift
	return Marks{First: first, Last: first | (1<<startShift - 1)}
}

// pid returns the pid of the host.
func (m Marks) pid() int { return int(m.First >> pidShift & maxPID) }

// Containment returns the marks of one containment of a host.
func (m Marks) Containment(number int) Marks {
	if m.Last == 0 {
		return m
	}
	first := m.First | uint64(number)<<containmentShift
	return Marks{First: first, Last: first | MaxChild}
}

// Child returns the mark of one child, m being the marks of its containment.
func (m Marks) Child(number int) Marks {
	if m.Last == 0 {
		return m
	}
	return Marks{First: m.First | uint64(number), Last: m.First | uint64(number)}
}

// Found is a running process with a mark.
type Found struct {
	PID   int    `json:"pid"`
	Name  string `json:"name"` // of its program, as ps shows it
	Start uint64 `json:"-"`

	Parent, Session int `json:"-"`
}

// Left returns those processes of all that are outside of the sessions of parent's direct children.
func Left(all []Found, parent int) (left []Found) {
	children := make(map[int]bool)
	for _, f := range all {
		children[f.PID] = f.Parent == parent
	}
	for _, f := range all {
		if !children[f.Session] {
			left = append(left, f)
		}
	}
	return left
}
