package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// extensionInfo is all there is to know about one extension.
type extensionInfo struct {
	exthost.ExtensionStatus
	Config         map[string]any        `json:"config,omitempty"`          // the manifest's
	OperatorConfig any                   `json:"operator_config,omitempty"` // what is laid over it, secrets masked
	Diagnostics    []protocol.Diagnostic `json:"diagnostics"`
}

func (a *app) infoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "info ID",
		Short: "Show one extension: its tools, requirements, environment and faults",
		Long: "Start one extension, show what its manifest and its handshake say, which environment\n" +
			"variables it is not given and which secret-like ones it is, and stop it again.",
		Args:              one("the id of an extension"),
		ValidArgsFunction: a.completeExtension,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, _, err := a.load()
			if err != nil {
				return err
			}
			h, err := a.openWith(cmd.Context(), cfg, func(id string) bool { return id == args[0] })
			if err != nil {
				return err
			}
			defer h.Close()
			s := h.Status()
			x, err := find(s, args[0])
			if err != nil {
				return err
			}
			info := extensionInfo{ExtensionStatus: x, Diagnostics: []protocol.Diagnostic{}, OperatorConfig: operatorConfig(cfg, x.ID)}
			if m, _ := manifest.ReadFile(x.Path, cfg.Extensions.FollowLinks); m != nil && m.Plugin.ID == x.ID {
				info.Config = m.Config
			}
			for _, d := range s.Diagnostics {
				if d.Extension == x.ID {
					info.Diagnostics = append(info.Diagnostics, d)
				}
			}
			return a.print(document{Kind: "extension", Value: info, Names: []string{x.ID}, Rows: info.rows(h.Tools().Extension(x.ID)), Wrap: true})
		},
	}
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

func (i *extensionInfo) rows(entries []*tools.Entry) (rows [][]string) {
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
	row("runs as", runsAs(i.ExtensionStatus))
	row("command", shellWords(i.Command))
	row("state", i.State)
	if i.State != exthost.StateSkipped { // whose diagnostics, below, say it with their hints
		row("reason", i.Reason)
	}
	row("last words", trimmed(lastWords(evidence(i.ExtensionStatus)))...)
	row("requires", i.requirements()...)
	row("config", compact(i.Config))
	row("operator's config", compact(i.OperatorConfig))
	row("state directory", i.StateDir)
	row("env withheld", strings.Join(i.EnvWithheld, " "))
	row("secrets passed", strings.Join(i.EnvPassedSecrets, " "))
	row("hooks", strings.Join(i.Hooks, ", "))
	tools := make([]string, len(entries))
	for n, e := range entries {
		tools[n] = fmt.Sprintf("%s  ~%d tokens  %s", e.Name, e.Tokens(), ownDescription(e))
	}
	row("tools", tools...)
	for _, d := range i.Diagnostics {
		if i.Reason == "" || i.State == exthost.StateSkipped || !strings.HasSuffix(d.Message, i.Reason) {
			row(string(d.Level), hinted(d))
		}
	}
	return rows
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
func ownDescription(e *tools.Entry) string {
	return strings.TrimPrefix(e.Description, "[ext:"+e.Extension+"] ")
}

func hinted(d protocol.Diagnostic) string {
	if d.Hint == "" {
		return d.Message
	}
	return d.Message + "; " + d.Hint
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
