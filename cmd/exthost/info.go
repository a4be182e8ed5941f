package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// extensionInfo is all there is to know about one extension.
type extensionInfo struct {
	status.Extension
	Config         map[string]any        `json:"config,omitempty"`          // the manifest's
	OperatorConfig any                   `json:"operator_config,omitempty"` // what is laid over it, secrets masked
	Diagnostics    []protocol.Diagnostic `json:"diagnostics"`

	running bool   // it is that of the host that serves this directory
	held    string // by what its processes are
}

func (a *app) infoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "info ID",
		Short: "Show one extension: its tools, requirements, environment and faults",
		Long: "Show what the manifest and the handshake of one extension say, which environment variables\n" +
			"it is not given and which secret-like ones it is. Where an exthost runs for this directory\n" +
			"this is about its processes and their last crash; else the extension is started and stopped\nagain.",
		Args:              one("the id of an extension"),
		ValidArgsFunction: a.completeExtension,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, cfg, list, err := a.lookAt(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			x, err := findWorker(s, args[0])
			if err != nil {
				return err
			}
			info := extensionInfo{Extension: x, Diagnostics: []protocol.Diagnostic{}, OperatorConfig: operatorConfig(cfg, x.ID), running: s.Host != nil, held: heldBy(s.Containment, x)}
			if m, _ := manifest.ReadFile(x.Path, cfg.Extensions.FollowLinks); m != nil && m.Plugin.ID == x.ID {
				info.Config = m.Config
			}
			for _, d := range s.Diagnostics {
				if concerns(d, x) {
					info.Diagnostics = append(info.Diagnostics, d)
				}
			}
			return a.print(document{Kind: "extension", Value: info, Names: []string{x.ID}, Rows: info.rows(list, time.Now()), Wrap: true})
		},
	}
}

// lookAt returns the status of a host, its configuration and the tools of one of its
// extensions: of the one that runs here and has it, else of one that runs that
// extension alone.
func (a *app) lookAt(ctx context.Context, id string) (status.Status, *config.Config, []httpserver.Tool, error) {
	r, cfg, broken := a.reach(ctx)
	if r != nil {
		s, err := r.status(ctx)
		if err != nil {
			return s, nil, nil, err
		}
		if _, err := findWorker(s, id); err == nil {
			list, err := r.tools(ctx, id)
			return s, cfg, list, err
		}
	}
	if broken != nil {
		return status.Status{}, nil, nil, broken
	}
	h, err := a.openWith(ctx, cfg, exthost.Options{Start: func(other string) bool { return other == id }, Mode: exthost.Mode{Inspect: true}})
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

// operatorConfig is extensions.entries.ID.config, nil when nothing is set.
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
	row("command", shellWords(i.Command))
	row("state", i.State)
	if i.State != status.StateSkipped { // whose diagnostics, below, say it with their hints
		row("reason", i.Reason)
	}
	if i.running {
		row("processes", i.processes(now)...)
		row("held by", i.held)
		row("restarts", i.restarts(now))
		if i.Transport != "" { // which a policy without a process has not
			row("calls", i.callsMade())
		}
		row("last failure", i.failure(now))
		row("last crash", i.crash(now))
	}
	if c := i.LastCrash; c != nil {
		row("last words", trimmed(lastWords(c.Evidence))...)
	}
	if i.running && i.State == string(supervisor.Failed) {
		row("next", "mend it, then exthost restart "+i.ID)
	}
	row("requires", i.requirements()...)
	row("config", compact(i.Config))
	row("operator's config", compact(i.OperatorConfig))
	row("state directory", i.StateDir)
	row("env withheld", strings.Join(i.EnvWithheld, " "))
	row("secrets passed", strings.Join(i.EnvPassedSecrets, " "))
	row("hooks", strings.Join(i.Hooks, ", "))
	tools := make([]string, len(list))
	for n, t := range list {
		tools[n] = fmt.Sprintf("%s  ~%d tokens  %s", t.Name, t.Tokens, unlabelled(t.Description, t.Extension))
	}
	row("tools", tools...)
	for _, d := range i.Diagnostics {
		if i.Reason == "" || i.State == status.StateSkipped || !strings.HasSuffix(d.Message, i.Reason) {
			row(string(d.Level), placed(d))
		}
	}
	return rows
}

// manner is how it runs, in words.
func (i *extensionInfo) manner() string {
	words := []string{runsAs(i.Extension)}
	if i.Activation == manifest.ActivationLazy {
		words = append(words, "started by its first call")
	}
	if i.Containment != "" {
		words = append(words, "in a "+i.Containment)
	}
	return strings.Join(words, ", ")
}

// heldBy is what holds the processes of x, which is nothing when it runs none.
func heldBy(c status.Containment, x status.Extension) string {
	if !slices.ContainsFunc(x.Instances, func(i status.Instance) bool { return i.PID > 0 }) {
		return ""
	}
	if x.Containment != "" {
		c.Holds = append(slices.Clone(c.Holds), x.Containment)
	}
	return c.String()
}

// restarts are how many there were, and when the next is due.
func (i *extensionInfo) restarts(now time.Time) string {
	words := []string{}
	if i.Restarts > 0 {
		words = append(words, strconv.Itoa(i.Restarts))
	}
	for _, one := range i.Instances {
		words = append(words, prospects(one, now)...)
	}
	return strings.Join(words, "; ")
}

func (i *extensionInfo) processes(now time.Time) (lines []string) {
	for _, one := range i.Instances {
		if one.PID > 0 {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%d, up %s, %s  %s", one.PID, span(now.Sub(one.StartedAt).Truncate(time.Second)), bytesOf(one.RSS), one.Key)))
		}
	}
	return lines
}

func (i *extensionInfo) callsMade() string {
	text := fmt.Sprintf("%d, %d failed, %d refused", i.Calls, i.Errors, i.Refused)
	if i.Latency != nil {
		text += fmt.Sprintf("; half within %s, 95%% within %s", span(i.Latency.P50), span(i.Latency.P95))
	}
	return text
}

// crash is the post-mortem in a line.
// failure is how the last call failed that did.
func (i *extensionInfo) failure(now time.Time) string {
	f := i.LastFailure
	if f == nil {
		return ""
	}
	return fmt.Sprintf("%s ago: %s (%s)", span(now.Sub(f.Time)), strings.TrimSpace(cmp.Or(f.Tool, "a request")+" "+f.Reason), f.Kind)
}

func (i *extensionInfo) crash(now time.Time) string {
	c := i.LastCrash
	if c == nil {
		return ""
	}
	text := span(now.Sub(c.Time)) + " ago"
	if c.PID > 0 {
		text += fmt.Sprintf(", pid %d after %s", c.PID, span(c.Time.Sub(c.StartedAt)))
	}
	return fmt.Sprintf("%s: %s (%s)", text, c.Reason, c.Kind)
}

func (i *extensionInfo) requirements() (lines []string) {
	for _, r := range []struct {
		what  string
		names []string
	}{{"programs", i.Requires.Bins}, {"variables", i.Requires.Env}, {"system", i.Requires.OS}, {"architecture", i.Requires.Arch}} {
		if len(r.names) > 0 {
			lines = append(lines, r.what+" "+strings.Join(r.names, ", "))
		}
	}
	return lines
}

// ownDescription is a tool's description without the mark of its extension.
func ownDescription(e *tools.Entry) string { return unlabelled(e.Description, e.Extension) }

func unlabelled(description, extension string) string {
	return strings.TrimPrefix(description, "[ext:"+extension+"] ")
}

func hinted(d protocol.Diagnostic) string {
	if d.Hint == "" {
		return d.Message
	}
	return d.Message + "; " + d.Hint
}

// placed is d with the line of the manifest, whose path has been said.
func placed(d protocol.Diagnostic) string {
	if d.Line == 0 {
		return hinted(d)
	}
	return fmt.Sprintf("line %d: %s", d.Line, hinted(d))
}

func trimmed(lines []string) []string {
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  stderr: ")
	}
	return lines
}

// compact is v on one line; "" for nothing.
func compact(v any) string {
	data, err := json.Marshal(v)
	if text := string(data); err == nil && text != "null" && text != "{}" {
		return text
	}
	return ""
}

// shellWords writes argv so that its words can be told apart.
func shellWords(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		if word == "" || strings.ContainsAny(word, " \t\n'\"\\$`&|;<>()*?[]#~!{}") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		words[i] = word
	}
	return strings.Join(words, " ")
}
