// Package sandbox confines a process and all that it starts to some files, system calls and hosts. The kernel enforces
// it, and a confined process cannot undo it.
//
//	manifest/sandbox.Table ──Resolve──> Policy ──Confine──> the calling thread, and what it starts
//
// Landlock controls files. A filter of system calls (seccomp) controls the rest: tracing and reading other processes,
// namespaces, mounts, keys, kernel interfaces, and sockets. Both are attributes of a thread that a process inherits
// from the thread that starts it, so there is no helper program and no cost after the start.
package sandbox

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost/internal/proc/sandbox/confine"
	"github.com/exthost/exthost/internal/proc/sandbox/egress"
	"github.com/exthost/exthost/internal/proc/sandbox/refusal"
	"github.com/exthost/exthost/manifest/sandbox"
)

// Policy states what a process may access. The zero value allows only what every program needs.
type Policy struct {
	Profile    string      // of the table
	Read       []string    // absolute, with symbolic links resolved
	Write      []string    // absolute, with symbolic links resolved; readable too
	Net        sandbox.Net // hosts it may connect to
	BestEffort bool        // start the process even if the system cannot enforce all of this
	At         Place       // where the extension lives
	OwnProc    bool        // the process has a pid namespace with its own /proc
	OwnNet     bool        // the process has a network namespace, whose only exit is the proxy, if any

	// Watch records which files are refused, if the process has no namespaces; nil: not recorded.
	Watch *Watch `json:"-"`
	// Record is called for connection attempts if Net has hosts, like record of [egress.Serve]. It
	// runs on many goroutines. Nil records none.
	Record func(egress.Attempt) `json:"-"`

	heard *refusal.Log // shared by copies of the policy; nil: nothing is kept
}

// LogTo makes p log connection attempts to l: the first of a kind at once, then one record per minute with their
// number. It also makes p log and keep what [Policy.Hear] recognizes.
func (p *Policy) LogTo(l *slog.Logger) {
	p.heard = refusal.NewLog(l, p.At.Dir, len(p.Net.Hosts()) > 0)
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

// Hear takes what the confined program said. If it may report what its sandbox has refused, Hear returns the line,
// keeps it, and logs it at most once a minute. Without a sandbox, p is nil and Hear returns "".
func (p *Policy) Hear(text string) (line string) {
	if p == nil || p.heard == nil {
		return ""
	}
	return p.heard.Hear(text)
}

// Heard returns the latest line of Hear; "" for none.
func (p *Policy) Heard() string {
	if p.heard == nil {
		return ""
	}
	return p.heard.Last()
}

// Next returns the command that finds out what the sandbox refuses, for a line of Hear.
func (p *Policy) Next(line string) string {
	return refusal.Next(p.At.Dir, len(p.Net.Hosts()) > 0, line)
}

// Namespaced reports whether p requires namespaces: one for the network, and with it one for /proc.
func (p *Policy) Namespaced() bool { return p != nil && p.Net.Word() != sandbox.NetNone }

// Rules returns what p allows for program.
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
	writes := len(p.Write) > 0
	if p.OwnProc {
		files = append(files, confine.Rule{Path: "/proc"})
		// its mounts hold the attributes of other files, so that it can have a temporary directory
		tmp := filepath.Join(real(p.At.State), temporary)
		if info, err := os.Lstat(tmp); err == nil && info.IsDir() {
			files, writes = append(files, confine.Rule{Path: tmp, Write: true}), true
		}
	}
	return &confine.Rules{Files: files, Writes: writes, Internet: p.Namespaced()}
}

// HoldsAttributes is listed in [Protection] if the process cannot change modes, owners, times and attributes of files
// that it may not write: because it writes nowhere, or has a mount namespace.
const HoldsAttributes = "attributes"

// Protection tells what the kernel enforces of a policy.
type Protection struct {
	Holds []string // what is enforced, in a few words each
	Lacks []string // what is not enforced, each with the reason after a colon
}

// NotEnforced is the error of a policy that the system cannot enforce.
type NotEnforced struct{ Lacks []string }

// Error lists what is not enforced, and why.
func (e *NotEnforced) Error() string {
	return fmt.Sprintf("its sandbox cannot be enforced: %s", strings.Join(e.Lacks, "; "))
}

// Check returns what the system enforces of p. The error is a [*NotEnforced] if the system cannot
// enforce all of p, unless p is best effort.
func (p *Policy) Check() (Protection, error) {
	have := p.protection()
	if len(have.Lacks) > 0 && !p.BestEffort {
		return have, &NotEnforced{have.Lacks}
	}
	return have, nil
}
