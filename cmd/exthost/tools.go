package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/tools"
)

func (a *app) toolsCommand() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "List every tool with its cost in tokens", Args: noArgs,
		Long: "Start every extension, list the tools they offer with an estimate of what each costs in\nevery model request, and stop them again.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listTools(cmd) },
	}
	schema := &cobra.Command{
		Use: "schema TOOL", Short: "Print one tool's descriptor as MCP clients get it", Args: one("the name of a tool"),
		ValidArgsFunction: a.completeTool,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.toolSchema(cmd, args[0]) },
	}
	cmd := a.group("tools", "List, export and describe the tools of all extensions", list, a.toolsExportCommand(), schema)
	cmd.RunE = list.RunE // alone, it lists
	return cmd
}

func (a *app) listTools(cmd *cobra.Command) error {
	h, err := a.open(cmd.Context(), nil)
	if err != nil {
		return err
	}
	defer h.Close()
	a.printProblems(h.Status())
	entries := h.Tools().Entries()
	list, names := []httpserver.Tool{}, []string{}
	rows := [][]string{{"TOOL", "TOKENS", "DESCRIPTION"}}
	for _, e := range entries {
		list = append(list, httpserver.ToolOf(e))
		names = append(names, e.Name)
		rows = append(rows, []string{e.Name, strconv.Itoa(e.Tokens()), ownDescription(e)})
	}
	rows = append(rows, []string{plural(entries, "tool"), strconv.Itoa(tokens(entries)), ""})
	return a.print(document{Kind: "tools", Value: list, Names: names, Rows: rows})
}

func (a *app) toolSchema(cmd *cobra.Command, name string) error {
	h, err := a.open(cmd.Context(), a.owning(name))
	if err != nil {
		return err
	}
	defer h.Close()
	e, ok := h.Tools().Lookup(name)
	if !ok {
		return unknownTool(h.Status(), name)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, e.Descriptor, "", "  "); err != nil {
		return err
	}
	return a.print(document{Kind: "tool", Value: e.Descriptor, Names: []string{name}, Text: safeJSON(b.Bytes())})
}

func (a *app) toolsExportCommand() *cobra.Command {
	var names []string
	for _, f := range tools.Formats() {
		names = append(names, string(f))
	}
	var format, file string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the tools as a model vendor's API takes them",
		Long: "Print all tools as one JSON document for a vendor's API. A tool that the vendor would\n" +
			"refuse is left out and named on stderr with the reason.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(names, format) {
				return usagef("exthost tools export -f "+cmp.Or(nearest.Of(format, names), names[0]), "--format %q: there is %s", format, strings.Join(names, ", "))
			}
			if err := a.jsonOnly(cmd); err != nil {
				return err
			}
			return a.exportTools(cmd, tools.Format(format), file)
		},
	}
	cmd.Flags().StringVarP(&format, "format", "f", "anthropic", "`FORMAT` of the vendor: "+strings.Join(names, ", "))
	cmd.Flags().StringVar(&file, "file", "", "write to `FILE` instead of stdout")
	completeFlag(cmd, "format", names)
	return cmd
}

func (a *app) exportTools(cmd *cobra.Command, format tools.Format, file string) error {
	h, err := a.open(cmd.Context(), nil)
	if err != nil {
		return err
	}
	defer h.Close()
	a.printProblems(h.Status())
	doc, omitted := tools.Export(format, h.Tools().Entries())
	for _, o := range omitted {
		fmt.Fprintf(a.err, "%s: %s left out: %s\n", a.paint(yellow, "warn"), o.Tool, safe(o.Reason))
	}
	var b bytes.Buffer
	if err := json.Indent(&b, doc, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	if file != "" {
		return os.WriteFile(file, b.Bytes(), 0o644)
	}
	_, err = io.WriteString(a.out, safeJSON(b.Bytes()))
	return err
}
