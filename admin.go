package exthost

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/host/operations"
	"github.com/exthost/exthost/internal/host/policies"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/stats"
	"github.com/exthost/exthost/internal/listing/toolsearch"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// Admin is the operator's side of a host. It is safe for concurrent use.
type Admin struct{ h *Host }

// Admin returns the operator's side of the host.
func (h *Host) Admin() Admin { return Admin{h} }

// Status is [Host.Status] plus figures of the operating system: the host's own process, and the memory of each
// process.
func (a Admin) Status() status.Status {
	s := a.h.Status()
	s.Host = &status.Host{PID: os.Getpid(), StartedAt: a.h.life.opened, RSS: process.Memory()}
	s.Host.OpenFiles, s.Host.MaxFiles = process.CountFiles(), process.OpenFiles()
	s.Host.Full = a.full()
	s.Clients = a.h.stats.history.Clients(a.h.gateway.Sessions.Clients(listingOf(a.h.snapshots.Load())))
	s.NamedClients = a.h.clients.Describe()
	s.SetMemory(process.SessionMemory())
	s.Verdict = s.Judge(time.Now()) // knows more than that of Host.Status
	return s
}

// full returns the places of the host's own files that have no room left.
func (a Admin) full() (list []status.FullPlace) {
	cfg := a.h.snapshots.Load().Config
	for _, p := range []status.FullPlace{
		{Of: "audit.path", Path: cfg.Audit.Path},
		{Of: "log.file", Path: cfg.Log.File},
		{Of: "the state directory", Path: a.h.env.StateDir},
	} {
		if p.Path == "" {
			continue
		}
		if p.Reason = file.NoRoom(p.Path); p.Reason != "" {
			list = append(list, p)
		}
	}
	return list
}

// Logger returns the log of the host, for a server in front of it. It keeps the latest records for [Admin.Logs]
// and masks secrets of extensions.
func (a Admin) Logger() *slog.Logger { return a.h.env.Log }

// ServedBy adds the report of a server in front of the host to [Host.Status]. A later call replaces report.
func (a Admin) ServedBy(report func() status.Server) { a.h.server.Store(&report) }

// listingOf returns a function that tells whether the list of a session has all tools or the search tools. It caches
// the answer for sessions with equal fields, because to look at all tools takes longer than the rest of a status.
func listingOf(now *snapshot.Snapshot) func(*protocol.Session) string {
	type alike struct{ extension, toolset, caller, mode, info string }
	known := make(map[alike]string)
	return func(s *protocol.Session) string {
		key := alike{s.Extension, s.Toolset, s.Caller, s.ToolMode, string(s.ClientInfo)}
		if known[key] == "" {
			known[key] = toolsearch.ModeAll
			if _, searches := now.SearchList(s); searches {
				known[key] = toolsearch.ModeSearch
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

// Logs yields the latest records of the host's log, oldest first; with f.Follow it continues with new ones until
// ctx ends or the host is closed. The last 256 records of the host and of each extension are kept, of level info
// and above. Lower levels reach followers only.
func (a Admin) Logs(ctx context.Context, f status.LogFilter) iter.Seq[status.LogRecord] {
	return a.h.journal.Records(ctx, f)
}

// Tap yields the messages between the host and an extension in both directions, from now until ctx ends or the host
// is closed. extension is an id, policy:NAME for the process of a policy, or "" for all. Secrets of extensions are
// masked. At most 1,024 frames or 4 MiB are queued for a slow reader, who is told how many were dropped; a frame is
// cut at 64 KiB. For an extension that runs a command per call, the frames are the command and its output.
func (a Admin) Tap(ctx context.Context, extension string) iter.Seq[status.Frame] {
	return a.h.env.Tap.Frames(ctx, extension)
}

// Spec returns the command line, environment, configuration and limits of an instance of an extension, for a
// check or a debugger that starts an instance itself. The error is requirement_missing if the extension may not run
// here, tool_not_found if it is unknown.
func (a Admin) Spec(id string) (runtime.Spec, error) {
	now := a.h.snapshots.Load()
	x := now.Extensions[id]
	if x == nil {
		s := a.h.Status()
		return runtime.Spec{}, cmp.Or(s.NotHere(id, "status"), operations.Cannot(s, id))
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
			Command:  a.h.env.Redactor.Strings(x.Command),
		})
	}
	return all
}

// Trace is the record of one exchange: the decision of each policy and its duration. It holds no payload.
type Trace = governance.Trace

// Traces returns the records of the last n exchanges that ended, newest first. The host keeps the last 1024 records,
// and makes none without policies.
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

// ApprovalRequest asks a person, on behalf of a policy or a hook, whether one call may be made.
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

// Calls returns the last n calls that ended, newest first, without their payloads. The host keeps the last 256.
func (a Admin) Calls(n int) []status.PastCall { return a.h.stats.history.Calls(n) }

// PastCall returns a call that has ended by its number, with its payloads, masked and cut. The error is tool_not_found
// if the call is no longer kept.
func (a Admin) PastCall(id uint64) (status.PastCall, error) { return a.h.stats.history.Call(id) }

// Questions returns the questions of extensions to callers that wait for an answer, oldest first.
func (a Admin) Questions() []status.Question { return a.h.stats.history.Questions() }

// History returns the counts of calls over the last hour, or those of an extension or destination over the last six
// hours, in longer steps and without load samples. "" is the whole host.
func (a Admin) History(extension string) status.History { return a.h.stats.history.Series(extension) }

// ToolUse returns the counts of a tool of an extension since the host was opened, nil if it was never called.
func (a Admin) ToolUse(extension, tool string) *status.ToolUse {
	return a.h.stats.history.Use(extension, tool)
}

// Plan returns what [Admin.Reload] would change now, as far as that is known without starting anything.
func (a Admin) Plan(ctx context.Context) (*status.Change, error) {
	a.h.reloads.mu.Lock()
	defer a.h.reloads.mu.Unlock()
	_, c, err := a.h.reloads.plan(ctx, nil)
	return c, err
}

// Reload applies the current configuration and search paths. New and changed extensions start beside the running
// ones, and then get the calls. Replaced and removed extensions end when their calls in flight have ended, at the
// latest after their drain_timeout. If a new build is broken, lacks a requirement or does not start, the previous
// build goes on; with reload = "stop_first", the previous build ends before the new one starts. Failed extensions are
// started again. An unusable configuration, a policy that does not start, and the end of ctx or of the host are
// errors and change nothing.
//
// If only has ids, Reload changes just these extensions and their servers: it applies their files,
// extensions.disabled and extensions.allowlist. All others stay as they are, even failed ones.
func (a Admin) Reload(ctx context.Context, only ...string) (*status.Change, error) {
	return a.h.reloads.Reload(ctx, only...)
}

// Restart replaces the instances of an extension, or of policy:NAME, and forgets earlier failures, so that the state
// is no longer failed. Calls in flight have the extension's drain_timeout to end. Restart waits until the new
// instances can be called, and returns why one cannot; when ctx ends, Restart returns and the restart goes on.
// Instances that were never called stay stopped. The error is requirement_missing if the extension may not run here,
// tool_not_found if it is unknown.
func (a Admin) Restart(ctx context.Context, id string) error {
	return a.h.nodes.Local.Restart(ctx, id)
}

// Watch sets whether the host looks for changes on disk: "log" logs a change, "reload" applies it, "on" does what
// the configuration states, "off" stops. The mode holds until the host ends or extensions.watch changes. The
// error is that of ctx, shutting_down, or invalid_arguments for an unknown mode.
func (a Admin) Watch(ctx context.Context, mode string) (status.Watch, error) {
	return a.h.watch.Set(ctx, mode)
}

// Enable lets a disabled extension run again, also after later starts of the host: it removes the id from
// extensions.disabled with [Options].Disable, and reloads that extension alone. The error is rejected if the
// configuration still keeps the extension from running: an allowlist without it, or a disabled owner.
func (a Admin) Enable(ctx context.Context, id string) error { return a.h.nodes.Local.Enable(ctx, id) }

// Disable stops an extension, also for later starts of the host: it adds the id to extensions.disabled with
// [Options].Disable, and reloads that extension alone. Calls in flight have the extension's drain_timeout to end.
func (a Admin) Disable(ctx context.Context, id string) error { return a.h.nodes.Local.Disable(ctx, id) }

// Approve allows the call of an approval request, once: immediately if the caller still waits, else when the same
// caller repeats the call in time. by names the approver. The error is tool_not_found if the request no longer waits.
func (a Admin) Approve(id, by string) error { return a.h.nodes.Local.Approve(id, by) }

// Deny refuses the call of an approval request. reason may be "".
func (a Admin) Deny(id, by, reason string) error { return a.h.nodes.Local.Deny(id, by, reason) }

// TestCall lets the policies decide about the request of c, and sends nothing to the extension. It returns the
// decisions, and the error that the call would have had. It asks for no approval and runs no audit; policies that
// count calls count this one too.
func (a Admin) TestCall(ctx context.Context, c *protocol.Call) (Trace, error) {
	return a.h.dispatcher.Test(ctx, c)
}

// RehearseOptions select a policy, by its name or by an entry, and calls.
type RehearseOptions struct {
	Policy string                // of the configuration; a disabled one too
	Entry  *governance.Spec      // a built-in policy that need not be in the configuration; nil: Policy names one
	Last   int                   // how many of the latest calls; default and maximum 256
	Calls  []status.RecordedCall // instead of the latest calls; nil: those
}

// rehearsalTime bounds the time of a rehearsal.
const rehearsalTime = 10 * time.Second

// Rehearse has one policy decide about calls that have ended: those of a cassette, or the latest, with what the host
// has kept of them, as [Admin.PastCall] shows.
// Nothing is called and nothing is recorded. A built-in policy that counts begins with no counts, and counts by the
// times of the calls. The policy decides as in mode enforce, by the risks and output schemas that tools have now; a
// tool that is gone counts as destructive. The rehearsal ends after 10 s, or with ctx. The error is
// tool_not_found for an unknown policy, invalid_arguments for one that cannot be rehearsed.
func (a Admin) Rehearse(ctx context.Context, o RehearseOptions) (status.Rehearsal, error) {
	s := a.h.snapshots.Enter()
	defer s.Leave()
	var r policies.Rehearsing
	var err error
	if o.Entry != nil {
		r, err = a.h.policies.RehearsingEntry(*o.Entry)
	} else {
		r, err = a.h.policies.Rehearsing(s.Policies, o.Policy)
	}
	if err != nil {
		return status.Rehearsal{}, err
	}
	calls := make([]stats.Recorded, len(o.Calls))
	for i := range o.Calls {
		if calls[i], err = policies.Recorded(&o.Calls[i]); err != nil {
			return status.Rehearsal{}, err
		}
	}
	if o.Calls == nil {
		calls = a.h.stats.history.Recorded(cmp.Or(max(o.Last, 0), math.MaxInt))
	}
	ctx, cancel := context.WithTimeout(ctx, rehearsalTime)
	defer cancel()
	return a.h.policies.Rehearse(ctx, r, calls, s.Catalog, a.h.stats.history.Excerpt), nil
}

// TestHooks simulates an event of any point, and runs its hooks like [Host.RunHooks]. The hooks really run, with all
// their effects; their approval requests reach no one. e.Tool, if set, is a registered name and determines the
// extension.
func (a Admin) TestHooks(ctx context.Context, e hooks.Event) (hooks.Outcome, error) {
	if entry, ok := a.h.Tools().Lookup(e.Tool); ok {
		e.Extension, e.OwnName = entry.Extension, entry.Tool
	}
	s := a.h.snapshots.Enter()
	defer s.Leave()
	return runHooks(ctx, s, &e, (*hooks.Set).Test)
}

// DeclaredSkills asks the MCP servers that are ready and declare skills by themselves for these, up to 1,000 of each. A
// skill of a folder, or of a server before, has its URI alone. A server that does not answer is named in the error, and
// leaves the others.
func (a Admin) DeclaredSkills(ctx context.Context) (list []status.Skill, err error) {
	s, ready, taken := a.h.snapshots.Load(), map[string]bool{}, map[string]bool{}
	for x := range s.Ordered {
		ready[x.ID()] = x.Status().State == string(supervisor.Ready)
	}
	for _, folder := range s.Skills {
		for _, e := range folder.Entries() {
			taken[e.URI] = true
		}
	}
	for _, id := range s.Declared.Owners(protocol.MethodSkillsList) {
		if !ready[id] {
			continue
		}
		found, failed := a.declaredBy(ctx, id)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", id, failed))
		}
		for _, one := range found {
			if !taken[one.URI] {
				taken[one.URI] = true
				list = append(list, one)
			}
		}
	}
	return list, err
}

// declaredBy returns the skills that one server declares.
func (a Admin) declaredBy(ctx context.Context, id string) (list []status.Skill, err error) {
	const most, patience = 1000, 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for params := json.RawMessage("{}"); len(list) < most; {
		result, err := a.h.Do(ctx, &protocol.Call{Extension: id, Method: protocol.MethodSkillsList, Params: params})
		if err != nil {
			return list, err
		}
		var page struct {
			Skills []struct {
				URI         string
				Frontmatter struct{ Name, Description string }
				Resources   json.RawMessage
			}
			NextCursor string
		}
		if err := json.Unmarshal(result, &page); err != nil {
			return list, err
		}
		for _, k := range page.Skills {
			var files []struct{ Size int64 }
			_ = json.Unmarshal(k.Resources, &files) // "dynamic" has no sizes
			one := status.Skill{
				Extension:   id,
				Name:        k.Frontmatter.Name,
				Description: k.Frontmatter.Description,
				URI:         k.URI,
				Files:       len(files),
				Declared:    true,
			}
			for _, f := range files {
				one.Bytes += f.Size
			}
			list = append(list, one)
		}
		if page.NextCursor == "" {
			break
		}
		params = rawjson.Set(json.RawMessage("{}"), "cursor", rawjson.Quote(page.NextCursor))
	}
	return list[:min(len(list), most)], nil
}

// Pins returns the pinned descriptors, by policy, extension, kind and name; the items held back for hidden text;
// and the tools of other extensions that changed since the operator accepted them. A pin that waits for the
// operator has a digest.
func (a Admin) Pins() []status.Pin {
	return a.h.snapshots.Load().Pins()
}

// AcceptTools accepts the selected items of an extension as the operator was shown them: the warnings about them end,
// also for later hosts, and items that policies held back are pinned and listed. by names the operator. The error is
// tool_not_found if nothing is selected, or if an item changed since it was shown.
func (a Admin) AcceptTools(s status.Selection, by string) error {
	now := a.h.snapshots.Load()
	pinned, err := a.h.policies.ApprovePins(now.Policies, s, by)
	defer a.h.announceAccepted(s.Extension, pinned)
	defer a.h.swap(nil) // also after an error, because the items accepted before it are listed
	accepted, failed := now.AcceptTools(s, pinned)
	switch {
	case failed != nil:
		return protocol.Errorf(protocol.ConfigInvalid, "%s is accepted until this host ends, and not longer: %w",
			s.Extension, failed)
	case err != nil && !(accepted && protocol.KindOf(err) == protocol.ToolNotFound):
		return err
	case accepted:
		a.h.env.Log.Info("changed tools were accepted", "extension", s.Extension, "tool", s.Label, "by", by)
	}
	return nil
}

// announceAccepted notifies clients of the lists that changed because of the accepted items. Changed tools of
// extensions are announced with the next snapshot.
func (h *Host) announceAccepted(extension string, accepted []status.Pin) {
	now := h.snapshots.Load()
	target := now.Target(extension)
	if target == nil {
		return
	}
	methods := map[pins.Kind]string{
		pins.Prompt:      protocol.MethodPromptsListChanged,
		pins.Resource:    protocol.MethodResourcesListChanged,
		pins.Template:    protocol.MethodResourcesListChanged,
		pins.Skill:       protocol.MethodResourcesListChanged,
		pins.ListedSkill: protocol.MethodResourcesListChanged,
	}
	if now.Destinations[extension] != nil {
		methods[pins.Tool] = protocol.MethodToolsListChanged
	}
	told := make(map[string]bool)
	for _, p := range accepted {
		if method := methods[p.Kind]; method != "" && !told[method] {
			told[method] = true
			h.gateway.NotifyListed(target.Base(), nil, method)
		}
	}
}

// Nodes returns the operations on this host and on the other nodes of its cluster.
func (h *Host) Nodes() Nodes { return h.nodes }

// Nodes are the operator's side of a host and of the other nodes of its cluster; without a cluster, of the host alone.
// An extension of another node is named NODE.ID, an approval request NODE/ID. by names the operator. A node takes
// orders from those in its cluster.operators; for others, the error is rejected. It is safe for concurrent use.
type Nodes interface {
	// Approvals returns the waiting approval requests of all nodes. It queries the other nodes for 2 s at most.
	Approvals(ctx context.Context) status.Approvals
	// Follow keeps the requests of other nodes current, for Current, until leave is called.
	Follow() (leave func())
	// Current returns the known waiting requests of all nodes, oldest first, the nodes whose requests are missing, and
	// two channels of which one is closed when they change: own for those of this host, remote for the others.
	Current() (list []ApprovalRequest, silent []status.Silent, own, remote <-chan struct{})
	// Approve is [Admin.Approve] for a request of any node.
	Approve(ctx context.Context, id, by string) error
	// Deny is [Admin.Deny] for a request of any node.
	Deny(ctx context.Context, id, by, reason string) error
	// Audit returns the audit records of all nodes about a call, by the id of one of its decisions. The decision of
	// one node leads to those of others. Audit waits 5 s at most. The error is invalid_arguments for an impossible id.
	Audit(ctx context.Context, id string) (status.CallRecords, error)
	// Restart is [Admin.Restart] for an extension of any node.
	Restart(ctx context.Context, id, by string) error
	// Enable is [Admin.Enable] for an extension of any node.
	Enable(ctx context.Context, id, by string) error
	// Disable is [Admin.Disable] for an extension of any node.
	Disable(ctx context.Context, id, by string) error
	// Reload is [Admin.Reload] of one extension of any node, or of this host for the id "".
	Reload(ctx context.Context, id, by string) (*status.Change, error)
	// Having returns a function that lists the nodes that have a tool of the catalog, this node first. The list is
	// empty without a cluster, and for the host's own tools.
	Having() func(*tools.Entry) []string
}
