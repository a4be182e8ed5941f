// Package inspect implements the commands that answer questions about extensions, tools and the configuration, and call
// tools.
package inspect

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// List returns exthost list, which lists the extensions.
func List(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the extensions found, and why any of them cannot run here",
		Long: "List the extensions on the search paths, without starting anything. An extension that cannot\n" +
			"run here, or is disabled, is listed with the reason; broken manifests are reported on\n" +
			"stderr. If a host is running in this directory, the states are those in the host.",
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := hosts.OnDisk(cmd.Context(), c)
			if err != nil {
				return err
			}
			hosts.PrintDiagnostics(c, s)
			names, rows := []string{}, [][]string{{"ID", "VERSION", "RUNS AS", "STATE", "DESCRIPTION"}}
			for _, x := range s.Extensions {
				names = append(names, x.ID)
				about := cmp.Or(x.Reason, x.Description)
				if x.HooksSee == config.HooksAll {
					about = "its hooks see all calls; " + about
				}
				rows = append(rows,
					[]string{x.ID, cmp.Or(x.Version, "-"), cmp.Or(hosts.RunsAs(x), "-"), x.State, about})
			}
			if len(names) == 0 {
				rows = [][]string{}
			}
			return c.Print(console.Document{
				Kind:  "extensions",
				Value: console.OrEmpty(s.Extensions),
				Names: names,
				Rows:  rows,
				Drop:  []string{"VERSION", "RUNS AS"},
				Wrap:  true,
			})
		},
	}
}

// extensionInfo is the output of exthost info.
type extensionInfo struct {
	status.Extension
	// the host's configuration for it, secrets masked
	OperatorConfig any                   `json:"operator_config,omitempty"`
	Diagnostics    []protocol.Diagnostic `json:"diagnostics"`

	running bool   // the status comes from the running host
	held    string // containment of its processes; "": it has none
}

// Info returns exthost info, which shows one extension.
func Info(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "info ID",
		Short: "Show one extension: tools, requirements, environment, faults",
		Long: "Show what the manifest and the handshake of one extension say, which environment variables\n" +
			"are withheld from it and which secret-like ones are passed. If a host is running in this\n" +
			"directory, show its processes and their last crash; else start the extension and stop it\n" +
			"again.",
		Args:              console.One("the id of an extension"),
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, cfg, list, err := statusOf(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			x, err := hosts.Worker(s, args[0])
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
		},
	}
}

// statusOf returns the status and configuration of the running host with the tools of one extension, both of the same
// generation of the catalog. If that host does not have the extension, it opens a host that starts only this one.
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
