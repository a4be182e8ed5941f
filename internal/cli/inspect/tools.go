package inspect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/tools"
)

// Tools lists, exports and describes tools.
func Tools(c *console.Console) *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "List every tool with its cost in tokens", Args: console.NoArgs,
		Long: "Start every extension, list the tools they offer with an estimate of what each costs in\nevery model request, and stop them again.",
		RunE: func(cmd *cobra.Command, _ []string) error { return listTools(cmd.Context(), c) },
	}
	schema := &cobra.Command{
		Use: "schema TOOL", Short: "Print one tool's descriptor as MCP clients get it", Args: console.One("the name of a tool"),
		ValidArgsFunction: hosts.CompleteTool(c),
		RunE:              func(cmd *cobra.Command, args []string) error { return toolSchema(cmd.Context(), c, args[0]) },
	}
	cmd := console.Group("tools", "List, export and describe the tools of all extensions", list, toolsExport(c), schema)
	cmd.RunE = list.RunE // exthost tools is exthost tools list
	return cmd
}

func listTools(ctx context.Context, c *console.Console) error {
	h, err := hosts.Inspect(ctx, c, nil)
	if err != nil {
		return err
	}
	defer h.Close()
	hosts.PrintProblems(c, h.Status())
	entries := h.Tools().Entries()
	list, names := []httpserver.Tool{}, []string{}
	rows := [][]string{{"TOOL", "TOKENS", "DESCRIPTION"}}
	for _, e := range entries {
		list = append(list, httpserver.ToolOf(e))
		names = append(names, e.Name)
		rows = append(rows, []string{e.Name, strconv.Itoa(e.Tokens()), hosts.Description(e.Description, e.Extension)})
	}
	rows = append(rows, []string{console.Plural(len(entries), "tool"), strconv.Itoa(hosts.Tokens(entries)), ""})
	return c.Print(console.Document{Kind: "tools", Value: list, Names: names, Rows: rows})
}

func toolSchema(ctx context.Context, c *console.Console, name string) error {
	h, err := hosts.Inspect(ctx, c, hosts.Owners(name))
	if err != nil {
		return err
	}
	defer h.Close()
	e, ok := h.Tools().Lookup(name)
	if !ok {
		return hosts.UnknownTool(h.Status(), name)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, e.Descriptor, "", "  "); err != nil {
		return err
	}
	return c.Print(console.Document{Kind: "tool", Value: e.Descriptor, Names: []string{name}, Text: console.SafeJSON(b.Bytes())})
}

func toolsExport(c *console.Console) *cobra.Command {
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
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := console.OneOf("exthost tools export -f "+cmp.Or(nearest.Of(format, names), names[0]), "--format", format, names); err != nil {
				return err
			}
			if err := c.JSONOnly(cmd); err != nil {
				return err
			}
			return exportTools(cmd.Context(), c, tools.Format(format), file)
		},
	}
	cmd.Flags().StringVarP(&format, "format", "f", "anthropic", "`FORMAT` of the vendor: "+strings.Join(names, ", "))
	cmd.Flags().StringVar(&file, "file", "", "write to `FILE` instead of stdout")
	console.CompleteFlag(cmd, "format", names)
	return cmd
}

func exportTools(ctx context.Context, c *console.Console, format tools.Format, file string) error {
	h, err := hosts.Inspect(ctx, c, nil)
	if err != nil {
		return err
	}
	defer h.Close()
	hosts.PrintProblems(c, h.Status())
	doc, omitted := tools.Export(format, h.Tools().Entries())
	for _, o := range omitted {
		c.Warn("%s left out: %s", o.Tool, console.Safe(o.Reason))
	}
	var b bytes.Buffer
	if err := json.Indent(&b, doc, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	if file != "" {
		return os.WriteFile(file, b.Bytes(), 0o644)
	}
	_, err = io.WriteString(c.Out, console.SafeJSON(b.Bytes()))
	return err
}
