package exthost

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
)

// Status is what an operator wants to know at a glance.
type Status struct {
	Version     string                `json:"version"`
	Generation  uint64                `json:"generation"` // of the tool catalog
	Extensions  []ExtensionStatus     `json:"extensions"` // in discovery order, the skipped ones last
	Diagnostics []protocol.Diagnostic `json:"diagnostics"`
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

	Command  []string          `json:"command,omitempty"`   // what is run, or the URL, as the manifest states it
	StateDir string            `json:"state_dir,omitempty"` // private to it, survives restarts
	Requires manifest.Requires `json:"requires,omitzero"`

	Tools  []string `json:"tools"` // registered names
	Hooks  []string `json:"hooks,omitempty"`
	Calls  int64    `json:"calls"`
	Errors int64    `json:"errors"`

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
	s := Status{Version: h.opts.Version, Generation: g.catalog.Generation()}
	h.mu.Lock()
	s.Diagnostics = slices.Clone(h.diagnostics)
	h.mu.Unlock()
	for _, id := range h.order {
		s.Extensions = append(s.Extensions, h.extensions[id].status(g))
	}
	for _, c := range h.skipped {
		x := extension{candidate: c}
		e := x.describe()
		e.State, e.Reason = StateSkipped, reasonFor(c.ID, s.Diagnostics)
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

// reasonFor is everything that keeps the extension from running.
func reasonFor(id string, diags []protocol.Diagnostic) string {
	var reasons []string
	for _, d := range diags {
		if d.Extension == id && d.Level != protocol.LevelInfo {
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
	if hs := x.handshake.Load(); hs != nil {
		s.Protocol, s.Hooks = hs.Protocol, hs.Hooks
	}
	s.Calls, s.Errors = x.calls.count.Load(), x.calls.errors.Load()
	s.State = string(supervisor.Idle)
	for i, slot := range x.group.Status() {
		one := instanceStatus(slot)
		s.Instances = append(s.Instances, one)
		s.Restarts += one.Restarts
		if i == 0 || s.State != string(supervisor.Ready) { // the best of them speaks for all
			s.State, s.Reason = one.State, one.Reason
		}
	}
	return s
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
	InFlight  int                `json:"in_flight"`
	Queued    int                `json:"queued"`
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
	return i
}

// callStats counts the calls of one extension.
type callStats struct {
	count, errors atomic.Int64
}

func (s *callStats) record(err error) {
	s.count.Add(1)
	if err != nil {
		s.errors.Add(1)
	}
}

// message is err without the culprit, for texts that name it already.
func message(err error) string {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}
