// Package sandbox confines a process and all that it starts: to files, to a part of the system
// calls and to a part of the network. The kernel enforces it, and nothing that a confined
// process does takes it back.
//
//	manifest/sandbox.Table ──Resolve──> Policy ──Confine──> the calling thread, and what it starts
//
// Files are held by Landlock, everything else by a filter of system calls (seccomp): tracing and
// reading other processes, namespaces, mounts, keys, kernel interfaces, and sockets. Both are
// attributes of a thread, which a process inherits from the thread that starts it. So there is no
// helper program, and no cost after the start.
package sandbox

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"

	"github.com/exthost/exthost/internal/proc/sandbox/confine"
	"github.com/exthost/exthost/internal/proc/sandbox/egress"
	"github.com/exthost/exthost/manifest/sandbox"
)

// Policy is what one process may touch. The zero value is nothing but what each program needs.
type Policy struct {
	Profile    string      // of the table
	Read       []string    // absolute paths, with symbolic links resolved
	Write      []string    // absolute paths, with symbolic links resolved; they are read too
	Net        sandbox.Net // what may be reached
	BestEffort bool        // start the process where the system cannot enforce all of this
	At         Place       // where the extension lives
	OwnProc    bool        // the process has a pid namespace, with a /proc of its own
	OwnNet     bool        // the process has a network namespace, which leads to a proxy at most

	// Watch records which files the process is refused, where it has no namespaces; nil records none.
	Watch *Watch `json:"-"`
	// Record is called for the connections that the process asks for, where Net has hosts, as
	// [egress.Serve] says. It runs on many goroutines. Nil records none.
	Record func(egress.Attempt) `json:"-"`
}

// LogTo has l record the connections of the process: at once, or many of a minute as one with their number.
func (p *Policy) LogTo(l *slog.Logger) {
	p.Record = func(a egress.Attempt) {
		l := l.With("to", cmp.Or(a.Target, "others"))
		if a.Times > 1 {
			l = l.With("times", a.Times)
		}
		if a.Refused != "" {
			l.Warn("its sandbox refused a connection", "reason", a.Refused)
		} else {
			l.Info("connected to a host", "address", a.Address)
		}
	}
}

// Namespaced reports whether p takes namespaces: a network of its own, and with it a /proc.
func (p *Policy) Namespaced() bool { return p != nil && p.Net.Word() != sandbox.NetNone }

// Rules are what p allows for program.
func (p *Policy) Rules(program string) *confine.Rules {
	files := p.profileReads(program)
	if path := real(program); p.At.refuse(path) == nil {
		files = append(files, confine.Rule{Path: path, Program: true})
	}
	for _, path := range devices {
		files = append(files, confine.Rule{Path: path, Write: true})
	}
	for _, path := range p.Read {
		files = append(files, confine.Rule{Path: path})
	}
	for _, path := range p.Write {
		files = append(files, confine.Rule{Path: path, Write: true})
	}
	if p.OwnProc {
		files = append(files, confine.Rule{Path: "/proc"})
	}
	return &confine.Rules{Files: files, Writes: len(p.Write) > 0, Internet: p.Namespaced()}
}

// HoldsAttributes is what [Protection] holds where the process changes no modes, owners, times and attributes of files
// that it may not write: it writes nowhere, or has a mount namespace.
const HoldsAttributes = "attributes"

// Protection is what the kernel enforces of a policy.
type Protection struct {
	Holds []string // what is enforced, each in a few words
	Lacks []string // what was asked for and is not enforced, each with the reason after a colon
}

// A NotEnforced is the error of a policy that the system cannot enforce.
type NotEnforced struct{ Lacks []string }

// Error says what is not enforced, and why.
func (e *NotEnforced) Error() string {
	return fmt.Sprintf("its sandbox cannot be enforced: %s", strings.Join(e.Lacks, "; "))
}

// Check returns what the system enforces of p. The error is a [*NotEnforced] where that is not all
// and p does not allow less.
func (p *Policy) Check() (Protection, error) {
	have := p.protection()
	if len(have.Lacks) > 0 && !p.BestEffort {
		return have, &NotEnforced{have.Lacks}
	}
	return have, nil
}
