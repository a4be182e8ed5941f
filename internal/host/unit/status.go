package unit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// Describe returns the part of a status that the manifest of c states.
func Describe(c discovery.Candidate) status.Extension {
	m := c.Manifest
	return status.Extension{
		ID:          c.ID,
		Name:        m.Plugin.Name,
		Version:     m.Plugin.Version,
		Description: m.Plugin.Description,
		Path:        c.Path,
		Transport:   m.Transport.Kind,
		Protocol:    m.Transport.Protocol,
		Command:     m.Transport.CommandLine(),
		Requires:    m.Requires,
		Config:      m.Config,
		Tools:       []string{},
	}
}

// Status returns the status of the unit, without tools and hooks.
func (u *Unit) Status() status.Extension {
	s := Describe(u.Candidate)
	s.StateDir, s.Activation = u.Spec.StateDir, u.Spec.Options.Activation
	s.Secrets = u.Spec.Stored
	s.EnvWithheld, s.EnvPassedSecrets = u.report.Withheld, u.report.PassedSecrets
	if u.Spec.Options.Isolate == manifest.IsolatePID && process.CanIsolate {
		s.Containment = process.HoldsNamespace
	}
	s.NewPrivileges, s.Sandbox = u.Spec.NewPrivileges, confinement(u.Spec)
	if s.Sandbox != nil {
		s.Sandbox.MayRefuse = u.Env.Redactor.String(s.Sandbox.MayRefuse)
	}
	if u.Spec.Login != nil {
		s.Login = u.Spec.Login.Needed()
	}
	u.Calls.Describe(&s)
	s.LastCrash = u.crash.Load()
	s.State, s.Breaker = string(supervisor.Idle), u.breaker()
	processes := u.instances.infos()
	for i, slot := range u.Phase.slots() {
		one := instanceStatus(slot)
		if p, ok := processes[slot.Key]; ok {
			one.PID, one.StartedAt, one.Doubt = p.PID, p.StartedAt, p.Doubt
		}
		s.Instances = append(s.Instances, one)
		if i == 0 || s.State != string(supervisor.Ready) { // a ready instance stands for all
			s.State, s.Reason, s.Next = one.State, one.Reason, protocol.NextOf(slot.Err)
		}
	}
	switch {
	case s.State == string(supervisor.Ready):
		s.Reason, s.Next = "", "" // of a past failure
	case s.State == string(supervisor.Idle) && u.Phase.pending.Load(): // it waits for other units
		s.State = string(supervisor.Spawning)
		fallthrough
	case s.State == string(supervisor.Spawning) && s.Reason == "":
		s.Reason = u.Phase.Doing()
	}
	return s
}

// confinement returns what the system enforces of the sandbox of s, nil without one.
func confinement(s *runtime.Spec) *status.Sandbox {
	if s.Sandbox == nil {
		return nil
	}
	p := s.Sandbox
	have, _ := process.Protect(p, s.Options.Isolate == manifest.IsolatePID, s.Containment)
	return &status.Sandbox{
		Holds:      have.Holds,
		Lacks:      have.Lacks,
		BestEffort: p.BestEffort,
		Read:       p.Read,
		Write:      p.Write,
		Net:        cmp.Or(strings.Join(p.Net, " "), "none"),
		MayRefuse:  p.Heard(),
	}
}

func instanceStatus(s supervisor.SlotStatus) status.Instance {
	i := status.Instance{
		Key:      s.Key,
		State:    string(s.State),
		Since:    s.Since,
		Restarts: s.Restarts,
		Breaker:  string(s.Breaker),
		InFlight: s.InFlight,
		Queued:   s.Queued,
	}
	if s.Err != nil {
		i.Reason, i.Evidence = protocol.Reason(s.Err), protocol.EvidenceOf(s.Err)
	}
	if !s.Next.IsZero() {
		i.NextRetry = &s.Next
	}
	if !s.BreakerUntil.IsZero() {
		i.NextProbe = &s.BreakerUntil
	}
	return i
}

// HasFailed reports whether an instance has failed for good, apart from a trial once in a while.
func (u *Unit) HasFailed() bool {
	return slices.ContainsFunc(u.Phase.slots(),
		func(s supervisor.SlotStatus) bool { return s.State == supervisor.Failed })
}

// IsReady reports whether an instance for all sessions accepts calls now.
func (u *Unit) IsReady() bool {
	return !u.PerSession() && slices.ContainsFunc(u.group.Status(),
		func(s supervisor.SlotStatus) bool { return s.State == supervisor.Ready })
}

// Measure returns the counts of the unit.
func (u *Unit) Measure() status.ExtensionMeasure { return u.instances.measure(u.ID(), u.Calls) }

// StartFailed begins the message of a [Unit.StartDiagnostic].
const StartFailed = "did not start: "

// StartDiagnostic reports why the unit did not start.
func (u *Unit) StartDiagnostic(err error) protocol.Diagnostic {
	kind := cmp.Or(protocol.KindOf(err), protocol.SpawnFailed)
	reason, next := protocol.Reason(err), protocol.NextOf(err)
	if next != "" {
		reason = strings.TrimSuffix(reason, "; "+next)
	}
	text := StartFailed + reason
	switch words := protocol.LastWords(err); {
	case words != "" && kind == protocol.HandshakeTimeout: // the last words say more than the time limit
		text = StartFailed + "its last words: " + words + "; " + reason
	case words != "":
		text += "; its last words: " + words
	}
	if e := protocol.EvidenceOf(err); e != nil && e.Line != "" {
		text += "; its last line on stdout: " + e.Line
	}
	return protocol.Diagnostic{
		Level:     protocol.LevelError,
		Code:      string(kind),
		Extension: u.ID(),
		Path:      u.Candidate.Path,
		Message:   text,
		Hint:      next,
	}
}
