package exthost

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"os"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/internal/host/operations"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/stats"
	"github.com/exthost/exthost/internal/listing/toollist"
	"github.com/exthost/exthost/internal/observe/journal"
	"github.com/exthost/exthost/internal/observe/wiretap"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
)

// Admin is the operator's side of a host. It is safe for concurrent use.
type Admin struct{ h *Host }

// Admin returns the operator's side of the host.
func (h *Host) Admin() Admin { return Admin{h} }

// Variables returns the names of the environment variables that the extensions and the configuration in force
// depend on, sorted.
func (h *Host) Variables() []string { return h.snapshots.Load().Variables() }

// Status is [Host.Status] plus figures of the operating system: the host's own process, and the memory of each
// process.
func (a Admin) Status() status.Status {
	s := a.h.Status()
	s.Host = &status.Host{PID: os.Getpid(), StartedAt: a.h.life.opened, RSS: process.Memory()}
	s.Clients = a.History().Clients(a.h.gateway.Sessions.Clients(listingOf(a.h.snapshots.Load())))
	s.NamedClients = a.h.clients.Describe()
	s.SetMemory(process.SessionMemory())
	return s
}

// Logger returns the log of the host, for a server in front of it. It keeps the latest records for [Admin.Logs]
// and masks secrets of extensions.
func (a Admin) Logger() *slog.Logger { return a.h.env.Log }

// ServedBy adds the report of a server in front of the host to [Host.Status]. A later call replaces report.
func (a Admin) ServedBy(report func() status.Server) { a.h.server.Store(&report) }

// listingOf returns a function that tells whether a session is listed all tools or a search. It caches the answer
// for sessions with equal fields, because to look at all tools takes longer than the rest of a status.
func listingOf(now *snapshot.Snapshot) func(*protocol.Session) string {
	type alike struct{ extension, toolset, caller, mode, info string }
	known := make(map[alike]string)
	return func(s *protocol.Session) string {
		key := alike{s.Extension, s.Toolset, s.Caller, s.ToolMode, string(s.ClientInfo)}
		if known[key] == "" {
			known[key] = toollist.All
			if _, searches := now.SearchList(s); searches {
				known[key] = toollist.Search
			}
		}
		return known[key]
	}
}

// Measures returns the counts since the host was opened.
func (a Admin) Measures() status.Measures {
	h := a.h
	m := status.Measures{Status: a.Status(), Listeners: h.stats.feed.Readers(), Sessions: h.gateway.Sessions.Len()}
	for _, u := range h.snapshots.Load().Units() {
		m.Extensions = append(m.Extensions, u.Base().Measure())
	}
	for _, p := range m.Status.Policies {
		m.Policies = append(m.Policies, h.policies.Stats.Measures(p.Name)...)
	}
	h.stats.history.Describe(&m)
	return m
}

// Events yields events of the given kinds, or of all, from now until ctx ends or the host is closed. The current
// approval requests come first. A listener that falls behind by 1024 events loses some and is told how many.
func (a Admin) Events(ctx context.Context, kinds ...status.EventKind) iter.Seq[status.Event] {
	return a.h.stats.feed.Events(ctx, a.h.nodes, kinds...)
}

// The log of a host.
type (
	LogRecord = journal.Record // one record, or a line that an extension wrote to its stderr
	LogFilter = journal.Filter // selects records; the zero value selects all that are kept
)

// Logs yields the latest records of the host's log, oldest first; with f.Follow it continues with new ones until
// ctx ends or the host is closed. The last 256 records of the host and of each extension are kept, of level info
// and above. Lower levels reach followers only.
func (a Admin) Logs(ctx context.Context, f LogFilter) iter.Seq[LogRecord] {
	return a.h.journal.Records(ctx, f)
}

// Frame is one message between the host and an extension.
type Frame = wiretap.Frame

// Tap yields the messages between the host and an extension, or policy:NAME, or all for "", in both directions,
// from now until ctx ends or the host is closed. Secrets of extensions are masked. At most 1,024 frames or 4 MiB
// are queued for a slow reader, who is told how many were dropped; a frame is cut at 64 KiB. For an extension
// that runs a command per call, the frames are the command and its output.
func (a Admin) Tap(ctx context.Context, extension string) iter.Seq[Frame] {
	return a.h.env.Tap.Frames(ctx, extension)
}

// Spec returns the command line, environment, configuration and limits of an instance of an extension, for a
// check or a debugger that starts one itself. The error is requirement_missing if the extension may not run here,
// tool_not_found if it is unknown.
func (a Admin) Spec(id string) (runtime.Spec, error) {
	now := a.h.snapshots.Load()
	x := now.Extensions[id]
	if x == nil {
		s := a.h.Status()
		return runtime.Spec{}, cmp.Or(s.NotHere(id, "info"), operations.Cannot(s, id))
	}
	spec, _, err := a.h.env.Spec(now.Config, x.Candidate)
	return spec, err
}

// WatchStatus returns whether and how the host looks for changes on disk.
func (a Admin) WatchStatus() status.Watch { return a.h.watch.Status() }

// Hooks returns every hook handler, by event and in the order of execution. For an extension that has not started
// it lists the declared handlers.
func (a Admin) Hooks() []status.Hook {
	all := []status.Hook{}
	for x := range a.h.snapshots.Load().Hooks.Handlers() {
		source := "code"
		switch {
		case x.Extension != "":
			source = "extension " + x.Extension
		case x.Command != nil:
			source = "config"
		}
		all = append(all, status.Hook{
			Event:    string(x.Point),
			Name:     x.Name,
			Source:   source,
			Priority: x.Priority,
			Matcher:  x.Matcher,
			Own:      x.Own,
			Timeout:  protocol.Duration(x.Timeout),
			OnError:  string(x.OnError),
			Command:  x.Command,
		})
	}
	return all
}

// Trace is the record of one exchange: the decision of each policy and its duration. It holds no payload.
type Trace = governance.Trace

// Traces returns the records of the last n exchanges that ended, newest first. The last 1024 are kept; there are
// none without policies.
func (a Admin) Traces(n int) []Trace {
	list := a.h.policies.Traces.Latest(n)
	for _, t := range list {
		a.maskReasons(t)
	}
	return list
}

// maskReasons masks secrets in the texts of policies, which may quote the request.
func (a Admin) maskReasons(t Trace) {
	for i := range t.Steps {
		reason := t.Steps[i].Reason
		t.Steps[i].Reason = a.h.env.Redactor.Text(reason, len(reason))
	}
}

// Trace returns the record of one decision. The error is tool_not_found if the decision is no longer kept.
func (a Admin) Trace(id string) (Trace, error) {
	t, ok := a.h.policies.Traces.Get(id)
	if !ok {
		return t, protocol.Errorf(protocol.ToolNotFound, "there is no decision %q among the last that are kept", id)
	}
	a.maskReasons(t)
	return t, nil
}

// ApprovalRequest asks a person for a policy or a hook whether a call may be made, once.
type ApprovalRequest = approval.Request

// ApprovalRequests returns the approval requests that wait for an answer, oldest first. [Admin.Events] reports
// each change.
func (a Admin) ApprovalRequests() []ApprovalRequest { return a.h.policies.Approvals.List() }

// Config returns the configuration in force, as a file would state it, with secrets masked.
func (a Admin) Config() map[string]any {
	cfg := *a.h.snapshots.Load().Config
	cfg.Server.Clients = a.h.clients.Stated()
	return cfg.Redacted()
}

// History is the record of ended calls.
type History = stats.History

// History returns the record of ended calls.
func (a Admin) History() *History { return &a.h.stats.history }
