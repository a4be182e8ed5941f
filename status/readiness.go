package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
)

// Obstacle is something that keeps a host from being ready, or a cause of a [Verdict].
type Obstacle struct {
	ID      string `json:"id"`            // an extension's id, policy:NAME, or another part of the host
	Blocked bool   `json:"blocked"`       // waiting does not help
	Text    string `json:"text"`          // what is wrong, with the id
	Next    string `json:"next"`          // the command that helps; "" if waiting helps
	All     bool   `json:"all,omitempty"` // no call passes; only in a verdict
}

// Obstacles returns what keeps the host from being ready: extensions that start with the host and are still starting,
// required extensions, required policies that cannot decide, and an expired certificate of the server. It is empty if
// the host is ready.
func (s *Status) Obstacles() (list []Obstacle) {
	for _, p := range s.Policies {
		if full := p.unwritable(s.Audit); full != nil {
			list = append(list, *full)
		} else if p.Required && p.Mode == governance.ModeEnforce && p.State != StateDisabled {
			list = append(list, p.obstacle()...)
		}
	}
	for _, x := range s.Extensions {
		switch {
		case slices.Contains(s.Required, x.ID):
			list = append(list, obstacle("extension "+x.ID, x.ID, x.State, x.Reason, x.next())...)
		case s.Starting && x.State == string(supervisor.Spawning):
			list = append(list, Obstacle{ID: x.ID, Text: fmt.Sprintf("extension %s is starting: %s", x.ID, x.Reason)})
		}
	}
	list = append(list, s.missing()...)
	list = append(list, s.expired()...)
	if s.Starting && len(list) == 0 {
		list = append(list, Obstacle{Text: "the host is starting"})
	}
	return list
}

// missing returns the required extensions that were not found.
func (s *Status) missing() (list []Obstacle) {
	for _, id := range s.Required {
		if !slices.ContainsFunc(s.Extensions, func(x Extension) bool { return x.ID == id }) {
			list = append(list,
				Obstacle{
					ID:      id,
					Blocked: true,
					Text:    fmt.Sprintf("extension %s is required, and there is none", id),
					Next:    "exthost status",
				})
		}
	}
	return list
}

// expired returns an obstacle if the certificate of the server has expired.
func (s *Status) expired() []Obstacle {
	if s.Server == nil || s.Server.CertificateEnds == nil {
		return nil
	}
	d := Certificate(*s.Server.CertificateEnds, time.Now())
	if d == nil || d.Code != CodeCertificateEnded {
		return nil
	}
	return []Obstacle{{ID: "server.tls", Blocked: true, Text: d.Message, Next: d.Hint}}
}

// IsCommand reports whether a next step is one command, and not several or a sentence.
func IsCommand(next string) bool {
	return strings.HasPrefix(next, "exthost ") && !strings.ContainsAny(next, ",;\n")
}

// next returns the step that the reason of x ends with, "" if none is known.
func (x *Extension) next() string {
	i := strings.LastIndex(x.Reason, "; exthost ")
	if x.LeftOut() && i >= 0 { // the reason is that of diagnostics, which quote no extension
		return x.Reason[i+2:]
	}
	return x.Next
}

// next returns the step that the reason of p ends with, "" if none is known.
func (p *Policy) next() string {
	if p.Process == nil {
		return ""
	}
	return p.Process.Next
}

// obstacle returns why p does not decide, with the last words of its process and the time of the next start; nil if it
// decides.
func (p *Policy) obstacle() []Obstacle {
	id := PolicyPrefix + p.Name
	list := obstacle("policy "+p.Name, id, p.State, p.Reason, p.next())
	dead := p.State == string(supervisor.Failed) || p.State == string(supervisor.Restarting)
	if list == nil || p.Process == nil || !dead {
		return list
	}
	o := &list[0]
	if !IsCommand(p.next()) {
		o.Next = "exthost restart " + id
	}
	for _, i := range p.Process.Instances {
		o.Text += lastWords(o.Text, i.Evidence)
		if i.NextRetry != nil {
			o.Text += "; next try at " + i.NextRetry.Local().Format(time.TimeOnly)
		}
	}
	return list
}

// maxWords is the length of the longest last words in a cause, in bytes.
const maxWords = 120

// lastWords returns what a process said last, to follow text; "" if text says it.
func lastWords(text string, e *protocol.Evidence) string {
	if e == nil {
		return ""
	}
	words := cmp.Or(e.Complaint(), e.Line)
	if words == "" || strings.Contains(text, words) {
		return ""
	}
	return "; its last words: " + display.Cut(words, maxWords)
}

// obstacle returns why something in a state does not serve, or nil. Idle extensions start with their first call
// and are no obstacle. next is the step that reason ends with, "" if none is known.
func obstacle(what, id, state, reason, next string) []Obstacle {
	o := Obstacle{ID: id, Text: what + " is " + state}
	switch supervisor.State(state) {
	case supervisor.Ready, supervisor.Idle:
		return nil
	case supervisor.Spawning:
		o.Text = what + " is starting"
	case supervisor.Restarting, supervisor.Draining:
	case StateDisabled:
		o.Blocked, o.Next = true, "exthost enable "+id
	case StateNotReady:
		o.Blocked, o.Next = true, "exthost reload"
	case StateUntrusted:
		o.Blocked, o.Next = true, "exthost trust "+id
	case StateSkipped:
		o.Blocked, o.Next = true, "exthost check"
	default:
		o.Blocked, o.Next = true, "exthost logs "+id
	}
	reason, next = splitNext(reason, next)
	o.Next = cmp.Or(next, o.Next)
	if reason != "" {
		o.Text += ": " + reason
	}
	return []Obstacle{o}
}

// splitNext cuts the step next off the end of a reason. It returns "" for a step that the reason does not end with, and
// for one that is not one command.
func splitNext(reason, next string) (rest, command string) {
	if rest, ends := strings.CutSuffix(reason, "; "+next); ends && IsCommand(next) {
		return rest, next
	}
	return reason, ""
}
