package hosts

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// Extension returns the status of one extension. For an unknown id, the error lists the faults of its manifest or
// suggests the nearest id.
func Extension(s status.Status, id string) (status.Extension, error) {
	x, err := Worker(s, id)
	if err == nil && !slices.ContainsFunc(s.Extensions, func(x status.Extension) bool { return x.ID == id }) {
		err = &console.Error{
			Code: console.ExitNotFound,
			Text: id + " is no extension; the configuration states it",
			Hint: "exthost config show --origin says where",
		}
	}
	return x, err
}

// Worker is [Extension] for everything that has a process: extensions, destinations, and policies, as policy:NAME.
func Worker(s status.Status, id string) (status.Extension, error) {
	all := slices.Clone(s.Extensions)
	for _, d := range s.Destinations {
		all = append(all, d.Extension)
	}
	for _, p := range s.Policies {
		all = append(all, policyAsExtension(p))
	}
	ids := make([]string, 0, len(all))
	for _, x := range all {
		if x.ID == id {
			return x, nil
		}
		ids = append(ids, x.ID)
	}
	if err := BrokenManifest(s, id); err != nil {
		return status.Extension{}, err
	}
	for _, d := range s.Diagnostics {
		if d.Extension == id && d.Code == discovery.CodeNested {
			return status.Extension{}, belowAnother(d)
		}
	}
	return status.Extension{}, &console.Error{
		Code: console.ExitNotFound,
		Text: fmt.Sprintf("there is no extension %q%s", id, console.DidYouMean(id, ids)),
		Hint: "exthost status",
	}
}

// belowAnother returns the error for an extension in the folder of another one, which d reports.
func belowAnother(d protocol.Diagnostic) error {
	return &console.Error{Code: console.ExitNotFound, Text: console.NearbyText(d.Message), Hint: "exthost status"}
}

// policyAsExtension returns the status of a policy's process; without a process, only its state and reason.
func policyAsExtension(p status.Policy) status.Extension {
	if p.Process != nil {
		return *p.Process
	}
	return status.Extension{ID: status.PolicyPrefix + p.Name, State: p.State, Reason: p.Reason, Tools: []string{}}
}

// BrokenManifest returns an error that lists the faults in the manifest of an extension, or in the tools that it
// offers; nil if there are none.
func BrokenManifest(s status.Status, id string) error {
	var lines []string
	broken := &console.Error{
		Code: console.ExitInvalid,
		Text: "extension " + id + " offers a tool that cannot be used",
		Hint: "exthost status " + id + ", once it is fixed",
	}
	for _, d := range s.Diagnostics {
		if d.Extension != id || d.Level != protocol.LevelError {
			continue
		}
		lines = append(lines, "  "+console.Safe(console.Nearby(d).String()))
		if !AboutTool(d) {
			broken.Text = "the manifest of extension " + id + " is invalid"
			broken.Hint = "exthost validate, once it is fixed"
		}
	}
	if lines == nil {
		return nil
	}
	broken.Text += "\n" + strings.Join(lines, "\n")
	return broken
}

// AboutTool reports whether d is about a tool that an extension offers, in its handshake or its manifest.
func AboutTool(d protocol.Diagnostic) bool { return strings.HasPrefix(d.Code, "tool_") }

// RunsAs returns the transport of an extension and, if it differs, the protocol.
func RunsAs(x status.Extension) string {
	if x.Protocol == "" || x.Protocol == x.Transport {
		return x.Transport
	}
	return x.Transport + "/" + x.Protocol
}

// PID returns the process of an extension that has exactly one instance; else 0.
func PID(x status.Extension) int {
	if len(x.Instances) == 1 {
		return x.Instances[0].PID
	}
	return 0
}

// Evidence returns the output that the latest failure of an extension left; nil if there is none.
func Evidence(x status.Extension) *protocol.Evidence {
	for _, i := range x.Instances {
		if i.Evidence != nil {
			return i.Evidence
		}
	}
	return nil
}

// SlowCalls describes the calls that instances of x have had for long.
func SlowCalls(x status.Extension, now time.Time) (notes []string) {
	for _, call := range x.Slow {
		notes = append(notes, fmt.Sprintf("%s of %s has been in flight for %s", call.Tool,
			cmp.Or(call.Caller, "anonymous"), console.Span(now.Sub(call.Since).Truncate(time.Second))))
	}
	if len(notes) > 0 {
		notes[len(notes)-1] += ": exthost logs " + x.ID + ", or exthost restart " + x.ID + ", which ends it"
	}
	return notes
}

// Condition describes an instance: its latest failure with the last words of its process, unless it is ready, and its
// [Prospects].
func Condition(i status.Instance, now time.Time) (notes []string) {
	if i.State != string(supervisor.Ready) && i.Reason != "" {
		notes = append(notes, strings.TrimSuffix(i.Reason+": "+complaint(i), ": "))
	}
	return append(notes, Prospects(i, now)...)
}

// complaint returns the line about a failure, from stderr or else stdout; "" if the reason contains it.
func complaint(i status.Instance) string {
	if i.Evidence == nil {
		return ""
	}
	line := cmp.Or(i.Evidence.Complaint(), i.Evidence.Line)
	if strings.Contains(i.Reason, line) {
		return ""
	}
	return console.Cut(line, 200)
}

// Prospects returns why an instance may refuse calls, and when it will accept them again.
func Prospects(i status.Instance, now time.Time) (notes []string) {
	if i.Doubt != "" {
		notes = append(notes, i.Doubt)
	}
	switch {
	case i.NextRetry != nil && i.NextRetry.After(now):
		notes = append(notes, "next try in "+console.Span(i.NextRetry.Sub(now)))
	case i.NextRetry != nil: // the time has come, but a lazy extension starts only for a call
		notes = append(notes, "next try with the next call")
	}
	switch {
	case i.NextProbe != nil && i.NextProbe.After(now):
		notes = append(notes, "breaker open, next probe in "+console.Span(i.NextProbe.Sub(now)))
	case i.NextProbe != nil:
		notes = append(notes, "breaker open, the next call is a probe")
	case i.Breaker != "" && i.Breaker != "closed":
		notes = append(notes, "breaker "+strings.ReplaceAll(i.Breaker, "_", " "))
	}
	return notes
}

// PolicyLayout returns l with the columns of [PolicyRows] that a narrow terminal leaves out.
func PolicyLayout(l console.Layout) console.Layout {
	l.Fold, l.Drop = true, policyDrop
	return l
}

var policyDrop = []string{"P50", "CATEGORY", "TYPE", "P95", "MODE"}

// PolicyDocument returns a document with a row for each policy.
func PolicyDocument(policies []status.Policy) console.Document {
	names := []string{}
	for _, p := range policies {
		names = append(names, p.Name)
	}
	return console.Document{
		Kind:  "policies",
		Value: console.OrEmpty(policies),
		Names: names,
		Rows:  PolicyRows(policies, time.Now()),
		Drop:  policyDrop,
		Wrap:  true,
	}
}

// PolicyRows returns a table with a row for each policy.
func PolicyRows(policies []status.Policy, now time.Time) [][]string {
	rows := [][]string{
		{"POLICY", "CATEGORY", "TYPE", "MODE", "STATE", "DECISIONS", "DENIED", "ERRORS", "P50", "P95", "NOTE"},
	}
	for _, p := range policies {
		var asked, denied, failed, shadow int64
		p50, p95, slowest := "-", "-", protocol.Duration(0)
		for _, c := range p.Calls { // by flow; a call has a decision in each flow
			asked += c.Continue + c.Rejected + c.Errors
			denied, failed, shadow = denied+c.Rejected, failed+c.Errors, shadow+c.Shadow
			// the slowest flow, as in the dashboard: an audit log writes in the response flow
			if c.Latency != nil && c.Latency.P95 >= slowest {
				slowest = c.Latency.P95
				p50, p95 = console.Span(time.Duration(c.Latency.P50)), console.Span(time.Duration(c.Latency.P95))
			}
		}
		is := cmp.Or(p.Builtin, string(p.Kind))
		rows = append(rows, []string{
			p.Name,
			string(p.Category),
			is,
			string(p.Mode),
			p.State,
			strconv.FormatInt(asked, 10),
			strconv.FormatInt(denied, 10),
			strconv.FormatInt(failed, 10),
			p50,
			p95,
			strings.Join(policyNotes(p, shadow, now), "; "),
		})
	}
	return rows
}

func policyNotes(p status.Policy, shadow int64, now time.Time) (notes []string) {
	if p.Process != nil && len(p.Process.Instances) == 1 {
		notes = Condition(p.Process.Instances[0], now)
	} else if p.Reason != "" {
		notes = append(notes, p.Reason)
	}
	for _, d := range p.Diagnostics {
		d.Extension = "" // the row names the policy
		notes = append(notes, console.Nearby(d).String())
	}
	if p.Mode == governance.ModeShadow {
		notes = append(notes, fmt.Sprintf("would have acted %d times", shadow))
	}
	if !p.Required {
		notes = append(notes, "optional")
	}
	if len(p.Flows) == 1 {
		notes = append(notes, string(p.Flows[0])+" only")
	}
	return notes
}
