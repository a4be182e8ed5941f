package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/text/shellwords"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// rows returns the table of exthost info: a name, then its values.
func (i *extensionInfo) rows(list []httpserver.Tool, now time.Time) (rows [][]string) {
	row := func(name string, values ...string) {
		for _, value := range values {
			if value != "" {
				rows = append(rows, []string{name, value})
				name = ""
			}
		}
	}
	row("id", i.ID)
	row("name", i.Name)
	row("version", i.Version)
	row("description", i.Description)
	row("manifest", i.Path)
	row("runs as", i.manner())
	row("command", shellwords.Join(i.Command))
	row("state", i.State)
	if !i.LeftOut() { // the diagnostics below contain the reason and a hint
		row("reason", i.Reason)
	}
	if i.Login != i.Reason {
		row("login", i.Login)
	}
	if i.running {
		i.runningRows(row, now)
	}
	if c := i.LastCrash; c != nil {
		words := console.LastWords(c.Evidence)
		for n := range words {
			words[n] = strings.TrimPrefix(words[n], "  stderr: ")
		}
		row("last words", words...)
	}
	if i.State == status.StateNotReady {
		row("next", hosts.Readable)
	}
	if i.running && i.State == string(supervisor.Failed) && i.Login == "" {
		row("next", "fix it, then exthost restart "+i.ID)
	}
	row("requires", i.requirements()...)
	row("config", compact(i.Config))
	row("operator's config", compact(i.OperatorConfig))
	row("state directory", i.StateDir)
	row("sandbox", i.confined()...)
	row("env withheld", strings.Join(i.EnvWithheld, " "))
	row("secrets passed", strings.Join(i.EnvPassedSecrets, " "))
	row("hooks", strings.Join(i.Hooks, ", "))
	row("hooks see", map[string]string{
		config.HooksAll:  "the calls of all extensions",
		config.HooksOwn:  "the calls of its own tools",
		config.HooksNone: "nothing: they do not run",
	}[i.HooksSee])
	tools := make([]string, len(list))
	for n, t := range list {
		tools[n] = fmt.Sprintf("%s  ~%d tokens  %s", t.Name, t.Tokens, hosts.Description(t.Description, t.Extension))
	}
	row("tools", tools...)
	for _, d := range i.Diagnostics {
		if i.Reason == "" || i.LeftOut() || !strings.HasSuffix(d.Message, i.Reason) {
			row(string(d.Level), placed(d))
		}
	}
	return rows
}

func (i *extensionInfo) runningRows(row func(name string, values ...string), now time.Time) {
	row("processes", i.processes(now)...)
	row("held by", i.held)
	if i.Restarts > 0 {
		row("restarts", strconv.Itoa(i.Restarts))
	}
	row("health", i.health(now))
	if i.Transport != "" { // a policy without a process has no transport
		row("calls", i.callsMade())
	}
	row("last failure", i.failure(now))
	row("last crash", i.crash(now))
}

func (i *extensionInfo) manner() string {
	if there := i.NotHere("info"); there != nil {
		return protocol.Reason(there)
	}
	words := []string{hosts.RunsAs(i.Extension)}
	if i.Activation == manifest.ActivationLazy {
		words = append(words, "started by its first call")
	}
	if i.Containment != "" {
		words = append(words, "in a "+i.Containment)
	}
	if i.NewPrivileges {
		words = append(words, "may gain privileges")
	}
	return strings.Join(words, ", ")
}

// confined lists what the kernel enforces, and what the processes may touch.
func (i *extensionInfo) confined() (lines []string) {
	s := i.Sandbox
	if s == nil {
		return nil
	}
	if len(s.Holds) > 0 {
		lines = append(lines, "enforced: "+strings.Join(s.Holds, ", "))
	}
	for _, lack := range s.Lacks {
		lines = append(lines, "NOT enforced: "+lack)
	}
	lines = append(lines, "reads "+console.Safe(strings.Join(s.Read, ", ")))
	if len(s.Write) > 0 {
		lines = append(lines, "writes "+console.Safe(strings.Join(s.Write, ", ")))
		if !slices.Contains(s.Holds, sandbox.HoldsAttributes) {
			lines = append(lines, `changes modes and times of all files of yours; runtime.isolate = "pid" prevents it`)
		}
	}
	return append(lines, "network: "+s.Net)
}

func (i *extensionInfo) processes(now time.Time) (lines []string) {
	for _, one := range i.Instances {
		if one.PID > 0 {
			lines = append(lines,
				strings.TrimSpace(fmt.Sprintf("%d, up %s, %s  %s", one.PID,
					console.Span(now.Sub(one.StartedAt).Truncate(time.Second)), console.Bytes(one.RSS), one.Key)))
		}
	}
	return lines
}

// health describes what is wrong with the instances, and when that may change.
func (i *extensionInfo) health(now time.Time) string {
	words := []string{}
	for _, one := range i.Instances {
		words = append(words, hosts.Prospects(one, now)...)
	}
	return strings.Join(words, "; ")
}

func (i *extensionInfo) callsMade() string {
	text := fmt.Sprint(max(i.Requests, i.Calls+i.Refused)) // the process of a policy counts Calls only
	inFlight := 0
	for _, one := range i.Instances {
		inFlight += one.InFlight + one.Queued
	}
	if inFlight > 0 { // requests are counted when they end
		text += fmt.Sprintf(" ended and %d in flight", inFlight)
	}
	text += fmt.Sprintf(", %d failed, %d refused, %d denied, %d with invalid arguments, %d errors of tools", i.Errors,
		i.Refused, i.Denied, i.Invalid, i.ToolErrors)
	if i.Latency != nil {
		text += fmt.Sprintf("; p50 %s, p95 %s", console.Span(time.Duration(i.Latency.P50)),
			console.Span(time.Duration(i.Latency.P95)))
	}
	return text
}

func (i *extensionInfo) failure(now time.Time) string {
	f := i.LastFailure
	if f == nil {
		return ""
	}
	return fmt.Sprintf("%s ago: %s (%s)", console.Span(now.Sub(f.Time)),
		strings.TrimSuffix(cmp.Or(f.Tool, "a request")+": "+f.Reason, ": "), f.Kind)
}

func (i *extensionInfo) crash(now time.Time) string {
	c := i.LastCrash
	if c == nil {
		return ""
	}
	text := console.Span(now.Sub(c.Time)) + " ago"
	if c.PID > 0 {
		text += fmt.Sprintf(", pid %d after %s", c.PID, console.Span(c.Time.Sub(c.StartedAt)))
	}
	return fmt.Sprintf("%s: %s (%s)", text, c.Reason, c.Kind)
}

func (i *extensionInfo) requirements() (lines []string) {
	for _, r := range []struct {
		what  string
		names []string
	}{
		{"programs", i.Requires.Bins},
		{"variables", i.Requires.Env},
		{"system", i.Requires.OS},
		{"architecture", i.Requires.Arch},
	} {
		if len(r.names) > 0 {
			lines = append(lines, r.what+" "+strings.Join(r.names, ", "))
		}
	}
	return lines
}

// placed renders a diagnostic with its place in a file. The path of the manifest alone is left out: it has a row of its
// own.
func placed(d protocol.Diagnostic) string {
	if d.Line == 0 {
		d.Path, d.Extension = "", ""
	}
	return console.Nearby(d).String()
}

// compact returns v as JSON on one line; "" if v is empty.
func compact(v any) string {
	data, err := json.Marshal(v)
	if text := string(data); err == nil && text != "null" && text != "{}" {
		return text
	}
	return ""
}
