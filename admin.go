package exthost

import (
	"context"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/exthost/exthost/internal/journal"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/wiretap"
	"github.com/exthost/exthost/protocol"
)

// Admin is the operator's side of a host: what a person at the controls asks and
// does. Its methods may be called by many goroutines at once.
type Admin struct{ h *Host }

// Admin returns the operator's side of the host.
func (h *Host) Admin() Admin { return Admin{h} }

// HostStatus is what the operating system knows of the host itself.
type HostStatus struct {
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`          // when it was opened
	RSS       int64     `json:"rss_bytes,omitempty"` // memory; 0 where the system does not tell
}

// Status is [Host.Status] with what it takes a look at the operating system to
// know: the host's own process, and the memory of each.
func (a Admin) Status() Status {
	s := a.h.Status()
	s.Host = &HostStatus{PID: os.Getpid(), StartedAt: a.h.openedAt, RSS: process.Memory()}
	memory := process.SessionMemory()
	processes := slices.Clone(s.Extensions)
	for _, p := range s.Policies {
		if p.Process != nil {
			processes = append(processes, *p.Process) // shares its instances
		}
	}
	for _, x := range processes {
		for i := range x.Instances {
			if pid := x.Instances[i].PID; pid > 0 {
				x.Instances[i].RSS = memory[pid]
			}
		}
	}
	return s
}

// Restart replaces the instances of an extension, or of policy:NAME, and forgets its failures, which
// is the way out of failed. Calls in flight may end, within its drain_timeout. It
// waits until the new instances can be called, and returns why one cannot; when
// ctx ends the restart goes on. What is not running because nobody has called it
// stays so. An extension that may not run here is a requirement_missing error,
// one that is not there tool_not_found.
func (a Admin) Restart(ctx context.Context, id string) error {
	x := a.h.gen.Load().worker(id)
	if x == nil {
		return a.h.cannotRestart(id)
	}
	a.h.log.Info("restarted by the operator", "extension", id)
	return a.h.restart(ctx, x)
}

func (h *Host) restart(ctx context.Context, x *extension) error {
	err := x.restart(ctx)
	switch {
	case err == nil:
		x.group.Release(firstHandshake) // nobody's session
		h.forget(x)
		h.offersChanged()
	case ctx.Err() != nil:
	case protocol.KindOf(err) != protocol.ShuttingDown:
		h.forget(x)
		h.report(startDiagnostic(x, err))
	}
	return err
}

// cannotRestart is why there is nothing to restart by that id.
func (h *Host) cannotRestart(id string) error {
	s := h.Status()
	var ids []string
	for _, p := range s.Policies {
		if PolicyPrefix+p.Name == id {
			return protocol.Errorf(protocol.InvalidArguments, "policy %s is %s, and has no process to restart", p.Name, p.State)
		}
		ids = append(ids, PolicyPrefix+p.Name)
	}
	for _, x := range s.Extensions {
		if x.ID == id && x.State == StateDisabled {
			return protocol.Errorf(protocol.Rejected, "extension %s is disabled: %s", id, x.Reason)
		}
		if x.ID == id {
			return protocol.Errorf(protocol.RequirementMissing, "extension %s is %s: %s", id, x.State, x.Reason)
		}
		ids = append(ids, x.ID)
	}
	return unknownExtension(id, ids)
}

// LogRecord is one record of the host's log, or a line that an extension wrote to
// its stderr.
type LogRecord = journal.Record

// LogFilter says which records of the log are wanted. The zero value is all that
// are kept.
type LogFilter = journal.Filter

// Logs yields the latest records of the host's log, oldest first, and with
// f.Follow goes on with new ones until ctx ends or the host is closed. The last
// 256 records of the host and of each extension are kept, info and above; what is
// below is there only for those who follow.
func (a Admin) Logs(ctx context.Context, f LogFilter) iter.Seq[LogRecord] {
	return a.h.journal.Records(ctx, f)
}

// Frame is one message between the host and an extension.
type Frame = wiretap.Frame

// Tap yields what passes between the host and an extension, or policy:NAME, "" for
// all of them, in both directions, from now until ctx ends or the host is closed. What
// the extension was given to keep secret is masked. At most 1,024 frames or 4 MiB wait
// for who is slow, who is told how many were dropped; of a frame over 64 KiB the rest
// is left out. An extension that runs a command for each call has no wire: it is shown
// the command and what it printed.
func (a Admin) Tap(ctx context.Context, extension string) iter.Seq[Frame] {
	return a.h.tap.Frames(ctx, extension)
}
