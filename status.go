package exthost

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/supervisor"
)

// Status is what an operator wants to know at a glance.
type Status struct {
	Host         *HostStatus           `json:"host,omitempty"` // see [Admin.Status]
	Version      string                `json:"version"`
	Generation   uint64                `json:"generation"` // of the tool catalog
	Containment  Containment           `json:"containment"`
	Extensions   []ExtensionStatus     `json:"extensions"`             // in discovery order, the skipped ones last
	Policies     []PolicyStatus        `json:"policies,omitempty"`     // in the order they are asked
	Audit        *AuditStatus          `json:"audit,omitempty"`        // nil: no record is kept
	Questions    int                   `json:"questions,omitempty"`    // that wait for an answer; see [Admin.Questions]
	Destinations []DestinationStatus   `json:"destinations,omitempty"` // by name
	Diagnostics  []protocol.Diagnostic `json:"diagnostics"`
}

// ExtensionStatus is one extension's part of [Status].
type ExtensionStatus struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	Version     string `json:"version"`
	Description string `json:"description,omitempty"`
	Path        string `json:"path"` // of its manifest
	Transport   string `json:"transport"`
	Protocol    string `json:"protocol,omitempty"` // with the MCP revision once known
	State       string `json:"state"`              // a supervisor state, skipped or disabled
	Reason      string `json:"reason,omitempty"`   // for anything not ready
	Restarts    int    `json:"restarts"`
	Activation  string `json:"activation,omitempty"`  // eager or lazy; "" when it does not run
	Containment string `json:"containment,omitempty"` // what holds its processes besides [Status.Containment]: "pid namespace"

	Command  []string          `json:"command,omitempty"`   // what is run, or the URL, as the manifest states it
	StateDir string            `json:"state_dir,omitempty"` // private to it, survives restarts
	Requires manifest.Requires `json:"requires,omitzero"`

	Tools    []string `json:"tools"`              // registered names
	Withheld []string `json:"withheld,omitempty"` // of tools that have changed since they were pinned
	Hooks    []string `json:"hooks,omitempty"`

	Calls   int64    `json:"calls"`             // that an instance had
	Errors  int64    `json:"errors"`            // of these, the ones that failed
	Refused int64    `json:"refused"`           // that no instance had: it was not ready, overloaded, failed …
	Latency *Latency `json:"latency,omitempty"` // nil before the first call

	LastFailure *Failure `json:"last_failure,omitempty"` // of a call that an instance had
	LastCrash   *Crash   `json:"last_crash,omitempty"`   // stays after a restart

	EnvWithheld      []string         `json:"env_withheld,omitempty"`       // names not passed on to it
	EnvPassedSecrets []string         `json:"env_passed_secrets,omitempty"` // secret-like names it declared and gets
	Instances        []InstanceStatus `json:"instances,omitempty"`
}

// The states of an extension that was found and is not run.
const (
	StateSkipped  = "skipped"  // something that it requires is missing, or cannot be used
	StateDisabled = "disabled" // the operator's disabled or allowlist leaves it out
)

// Status returns a snapshot of the host.
func (h *Host) Status() Status {
	g := h.gen.Load()
	s := Status{Version: h.opts.Version, Generation: g.catalog.Generation(), Containment: h.contains(), Extensions: []ExtensionStatus{}}
	h.mu.Lock()
	s.Diagnostics = append([]protocol.Diagnostic{}, slices.Concat(g.diagnostics, h.diagnostics, h.offerDiagnostics)...) // never null
	h.mu.Unlock()
	for _, x := range g.inOrder() {
		s.Extensions = append(s.Extensions, x.status(g))
	}
	for _, x := range g.destinations() {
		s.Destinations = append(s.Destinations, x.destinationStatus(g))
	}
	s.Policies, s.Audit, s.Questions = g.policies(), h.oversight.auditStatus(), len(h.oversight.desk.List())
	for _, c := range g.skipped {
		x := extension{candidate: c, calls: new(callStats)}
		e := x.describe()
		e.State, e.Reason = StateSkipped, reasonFor(c, s.Diagnostics)
		s.Extensions = append(s.Extensions, e)
	}
	for _, d := range s.Diagnostics {
		if reason, ok := leftOut[d.Code]; ok {
			s.Extensions = append(s.Extensions, ExtensionStatus{ID: d.Extension, Path: d.Path, State: StateDisabled, Reason: reason, Tools: []string{}})
		}
	}
	return s
}

// leftOut is why the operator's configuration keeps an extension from running, by
// the code of the diagnostic that says so.
var leftOut = map[string]string{
	discovery.CodeDisabled:       "extensions.disabled names it",
	discovery.CodeNotAllowlisted: "extensions.allowlist does not name it",
}

// reasonFor is everything that keeps the candidate from running. Another file may
// claim the same id.
func reasonFor(c discovery.Candidate, diags []protocol.Diagnostic) string {
	var reasons []string
	for _, d := range diags {
		if d.Extension == c.ID && d.Path == c.Path && d.Level != protocol.LevelInfo {
			reasons = append(reasons, d.Message)
		}
	}
	return strings.Join(reasons, "; ")
}

// describe is what the manifest alone says.
func (x *extension) describe() ExtensionStatus {
	m := x.candidate.Manifest
	return ExtensionStatus{
		ID: x.candidate.ID, Name: m.Plugin.Name, Version: m.Plugin.Version, Description: m.Plugin.Description,
		Path: x.candidate.Path, Transport: m.Transport.Kind, Protocol: m.Transport.Protocol,
		Command: commandLine(m.Transport), StateDir: x.stateDir, Requires: m.Requires, Tools: []string{},
		Activation: x.options.Activation, Containment: x.containment(),
		EnvWithheld: x.env.Withheld, EnvPassedSecrets: x.env.PassedSecrets,
	}
}

// commandLine is what a transport runs, or the URL it connects to.
func commandLine(t manifest.Transport) []string {
	switch {
	case t.URL != "":
		return []string{t.URL}
	case len(t.Cmd) > 0:
		return t.Cmd
	case t.Script != "":
		return append([]string{t.Script}, t.Args...)
	case t.Command != "":
		return append([]string{t.Command}, t.Args...)
	}
	return nil
}

func (x *extension) status(g *generation) ExtensionStatus {
	s := x.describe()
	for _, e := range g.catalog.Extension(x.candidate.ID) {
		s.Tools = append(s.Tools, e.Name)
	}
	s.Withheld = g.catalog.WithheldOf(x.candidate.ID)
	if hs := x.handshake.Load(); hs != nil {
		s.Protocol = hs.Protocol
	}
	s.Hooks = x.hookPoints()
	s.running(x)
	return s
}

// running adds what there is to say of the processes of x.
func (s *ExtensionStatus) running(x *extension) {
	s.Calls, s.Errors, s.Refused = x.calls.count.Load(), x.calls.errors.Load(), x.calls.refused.Load()
	s.Latency, s.LastFailure, s.LastCrash = x.calls.took.latency(), x.calls.failure.Load(), x.crash.Load()
	s.State = string(supervisor.Idle)
	processes := x.processes()
	for i, slot := range x.slots() {
		one := instanceStatus(slot)
		if p, ok := processes[slot.Key]; ok {
			one.PID, one.StartedAt = p.PID, p.StartedAt
		}
		s.Instances = append(s.Instances, one)
		s.Restarts += one.Restarts
		if i == 0 || s.State != string(supervisor.Ready) { // the best of them speaks for all
			s.State, s.Reason = one.State, one.Reason
		}
	}
	if s.State == string(supervisor.Ready) {
		s.Reason = "" // of a failure that is over
	}
}

// processes returns what is known of the running instances, by the key of their
// slot; of two with one key, the later.
func (x *extension) processes() map[string]runtime.Info {
	x.mu.Lock()
	instances := slices.Collect(maps.Keys(x.instances))
	x.mu.Unlock()
	all := make(map[string]runtime.Info, len(instances))
	for _, i := range instances {
		info := i.Info()
		if other, ok := all[i.key]; !ok || info.StartedAt.After(other.StartedAt) {
			all[i.key] = info
		}
	}
	return all
}

// InstanceStatus is one running, or no longer running, copy of an extension.
type InstanceStatus struct {
	Key       string             `json:"key,omitempty"` // which session's it is, or which of N
	State     string             `json:"state"`
	Since     time.Time          `json:"since,omitzero"`
	Reason    string             `json:"reason,omitempty"`   // of the latest failure
	Evidence  *protocol.Evidence `json:"evidence,omitempty"` // what that failure left behind
	Restarts  int                `json:"restarts"`
	NextRetry *time.Time         `json:"next_retry,omitempty"`
	Breaker   string             `json:"breaker,omitempty"`
	NextProbe *time.Time         `json:"next_probe,omitempty"` // of an open breaker: when a call may try again
	InFlight  int                `json:"in_flight"`
	Queued    int                `json:"queued"`

	PID       int       `json:"pid,omitempty"` // 0 when no process lives
	StartedAt time.Time `json:"started_at,omitzero"`
	RSS       int64     `json:"rss_bytes,omitempty"` // of the process and those it started; see [Admin.Status]
}

func instanceStatus(s supervisor.SlotStatus) InstanceStatus {
	i := InstanceStatus{Key: s.Key, State: string(s.State), Since: s.Since, Restarts: s.Restarts,
		Breaker: string(s.Breaker), InFlight: s.InFlight, Queued: s.Queued}
	if s.Err != nil {
		i.Reason = message(s.Err)
		if e := (*protocol.Error)(nil); errors.As(s.Err, &e) {
			i.Evidence = e.Evidence
		}
	}
	if !s.Next.IsZero() {
		i.NextRetry = &s.Next
	}
	if !s.BreakerUntil.IsZero() {
		i.NextProbe = &s.BreakerUntil
	}
	return i
}

// message is err without the culprit, for texts that name it already.
func message(err error) string {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}
