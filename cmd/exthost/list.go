package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

func (a *app) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the extensions found, and why any of them cannot run here",
		Long: "List what the search paths hold, without starting anything. What was found and cannot\n" +
			"run here, or is disabled, is listed with its reason; broken manifests are reported on\nstderr.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := a.open(cmd.Context(), none)
			if err != nil {
				return err
			}
			defer h.Close()
			s := h.Status()
			a.printDiagnostics(s)
			names, rows := []string{}, [][]string{{"ID", "VERSION", "RUNS AS", "STATE", "DESCRIPTION"}}
			for _, x := range s.Extensions {
				names = append(names, x.ID)
				note := x.Description
				if x.Reason != "" {
					note = x.Reason
				}
				rows = append(rows, []string{x.ID, orDash(x.Version), orDash(runsAs(x)), x.State, note})
			}
			if len(names) == 0 {
				rows = [][]string{}
			}
			return a.print(document{Kind: "extensions", Value: orEmpty(s.Extensions), Names: names, Rows: rows})
		},
	}
}

// orEmpty keeps a list from being null in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// runsAs is the transport and, where it has one, the protocol.
func runsAs(x status.Extension) string {
	if x.Protocol == "" || x.Protocol == x.Transport {
		return x.Transport
	}
	return x.Transport + "/" + x.Protocol
}

// unlisted are the findings, but mere remarks, about files that became no
// extension. What is wrong with a destination is said where that is.
func unlisted(s status.Status) []protocol.Diagnostic {
	listed := slices.Clone(s.Extensions)
	for _, d := range s.Destinations {
		listed = append(listed, d.Extension)
	}
	var out []protocol.Diagnostic
	for _, d := range s.Diagnostics {
		if d.Level != protocol.LevelInfo && !slices.ContainsFunc(listed, func(x status.Extension) bool { return concerns(d, x) }) {
			out = append(out, d)
		}
	}
	return out
}

// concerns reports whether d is about x, and not about a second file that claims
// its id. A manifest too broken to say its id is that of the extension that came of it
// before and still runs.
func concerns(d protocol.Diagnostic, x status.Extension) bool {
	if d.Extension == "" {
		return d.Path != "" && d.Path == x.Path
	}
	return d.Extension == x.ID && x.ID != "" && (d.Path == "" || filepath.Dir(d.Path) == filepath.Dir(x.Path))
}

// said reports whether the reason that x is shown with tells d already.
func said(x status.Extension, d protocol.Diagnostic) bool {
	return x.Reason != "" && (strings.Contains(d.Message, x.Reason) || strings.Contains(x.Reason, d.Message))
}

// printDiagnostics tells on stderr what is wrong with files that are not listed,
// and where to begin when there is nothing at all.
func (a *app) printDiagnostics(s status.Status) {
	found := unlisted(s)
	for _, d := range found {
		a.say(d)
	}
	broken := func(d protocol.Diagnostic) bool { return d.Code != discovery.CodePathMissing }
	if len(s.Extensions) == 0 && !slices.ContainsFunc(found, broken) {
		a.say(protocol.Diagnostic{Level: protocol.LevelInfo, Message: "no extension was found: one is a folder with a plugin.toml below ./extensions",
			Hint: "exthost init NAME --lang python writes one, exthost config show says where else they are looked for"})
	}
}

// printProblems tells on stderr what is missing from a list of tools, and why.
func (a *app) printProblems(s status.Status) {
	a.printDiagnostics(s)
	for _, x := range s.Extensions {
		if x.Reason == "" || x.State == status.StateDisabled {
			continue
		}
		a.say(protocol.Diagnostic{Level: protocol.LevelWarn, Extension: x.ID, Message: x.State + ", " + x.Reason})
		for _, line := range lastWords(evidence(x)) {
			fmt.Fprintln(a.err, safe(line))
		}
	}
}
