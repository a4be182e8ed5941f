// Package inspect implements the commands that answer questions about extensions, tools and the configuration, and call
// tools.
package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// extensionInfo is the output of exthost status ID.
type extensionInfo struct {
	status.Extension
	// the host's configuration for the extension, secrets masked
	OperatorConfig any                   `json:"operator_config,omitempty"`
	Diagnostics    []protocol.Diagnostic `json:"diagnostics"`

	running bool   // the status comes from the running host
	held    string // containment of its processes; "": it has none
}

// Extension shows one extension, as exthost status ID does.
func Extension(ctx context.Context, c *console.Console, id string) error {
	s, cfg, list, err := statusOf(ctx, c, id)
	if err != nil {
		return err
	}
	x, err := hosts.Worker(s, id)
	if err != nil {
		return err
	}
	info := extensionInfo{
		Extension:      x,
		Diagnostics:    []protocol.Diagnostic{},
		OperatorConfig: operatorConfig(cfg, x.ID),
		running:        s.Host != nil,
		held:           heldBy(s.Containment, x),
	}
	for _, d := range s.Diagnostics {
		if hosts.Concerns(d, x) {
			info.Diagnostics = append(info.Diagnostics, d)
		}
	}
	return c.Print(console.Document{
		Kind:  "extension",
		Value: info,
		Names: []string{x.ID},
		Rows:  info.rows(list, time.Now()),
		Wrap:  true,
	})
}

// statusOf returns the status and configuration of the running host, and the tools of one extension, of the same
// generation of the catalog as the status. If the running host does not have the extension, statusOf opens a host that
// starts only this extension.
func statusOf(ctx context.Context, c *console.Console, id string,
) (status.Status, *config.Config, []httpserver.Tool, error) {
	r, cfg, broken := hosts.Reach(ctx, c)
	if r != nil {
		for {
			s, err := r.Status(ctx)
			if err != nil {
				return s, nil, nil, err
			}
			if _, err := hosts.Worker(s, id); err != nil {
				break
			}
			var list httpserver.ToolList
			if err := r.Get(ctx, "/api/v1/tools?extension="+url.QueryEscape(id), &list); err != nil ||
				list.Generation == s.Generation {
				return s, cfg, list.Tools, err
			}
		}
	}
	if broken != nil {
		return status.Status{}, nil, nil, broken
	}
	h, err := hosts.Open(ctx, c, cfg,
		exthost.Options{Start: func(other string) bool { return other == id }, Mode: exthost.Mode{Inspect: true}})
	if _, ok := errors.AsType[hosts.NotTrusted](err); ok {
		h, err = hosts.Look(ctx, c, cfg)
	}
	if err != nil {
		return status.Status{}, nil, nil, err
	}
	defer h.Close()
	var list []httpserver.Tool
	for _, e := range h.Tools().Extension(id) {
		list = append(list, httpserver.ToolOf(e))
	}
	return h.Status(), cfg, list, nil
}

// operatorConfig returns extensions.entries.ID.config; nil if it is not set.
func operatorConfig(cfg *config.Config, id string) any {
	var at any = cfg.Redacted()
	for _, key := range []string{"extensions", "entries", id, "config"} {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[key]
	}
	return at
}

// heldBy returns the containment of x; "" if x has no process.
func heldBy(c status.Containment, x status.Extension) string {
	if !slices.ContainsFunc(x.Instances, func(i status.Instance) bool { return i.PID > 0 }) {
		return ""
	}
	if x.Containment != "" {
		c.Holds = append(slices.Clone(c.Holds), x.Containment)
	}
	return c.String()
}

// rows returns the table of exthost status ID: a name, then its values.
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
	row("command", text.ShellLine(i.Command))
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
		row("next", cmp.Or(i.Next, "fix it, then exthost restart "+i.ID))
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
		tools[n] = fmt.Sprintf("%s  %s  ~%d tokens  %s", t.Name, t.Risk, t.Tokens,
			hosts.Description(t.Description, t.Extension))
	}
	row("tools", tools...)
	row("skills", i.skills()...)
	for _, d := range i.Diagnostics {
		if i.Reason == "" || i.LeftOut() || !strings.HasSuffix(d.Message, i.Reason) {
			row(string(d.Level), placed(d))
		}
	}
	return rows
}

func (i *extensionInfo) skills() (lines []string) {
	for _, k := range i.Skills {
		lines = append(lines,
			fmt.Sprintf("%s  %s  %s", k.Name, console.Plural(k.Files, "file"), cmp.Or(k.Held, k.Description)))
	}
	return lines
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
	row("slow calls", hosts.SlowCalls(i.Extension, now)...)
	row("last failure", i.failure(now))
	row("last crash", i.crash(now))
}

func (i *extensionInfo) manner() string {
	if remote := i.NotHere("status"); remote != nil {
		return protocol.Reason(remote)
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
	lines = append(lines, "network: "+s.Net)
	if s.MayRefuse != "" {
		lines = append(lines, "it may have refused this: "+console.Safe(s.MayRefuse),
			"exthost check --sandbox "+console.NearbyPath(filepath.Dir(i.Path))+" says what it refuses")
	}
	return lines
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

// health describes the problems of the instances, and when they may end.
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
