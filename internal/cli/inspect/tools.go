package inspect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/tools"
)

// askedHost is the part of the help that says which host answers.
const askedHost = "The host that runs in this directory answers; if none runs, every extension is\n" +
	"started and stopped again."

// Tools returns exthost tools, which lists, finds, exports and describes tools.
func Tools(c *console.Console) *cobra.Command {
	list := toolsList(c)
	var toolset string
	schema := &cobra.Command{
		Use:         "schema TOOL",
		Short:       "Print one tool's descriptor as MCP clients get it",
		Annotations: console.AsksHost,
		Args:        console.One("the name of a tool"),
		Long: "Print the descriptor of one tool as MCP clients get it. The host that runs in " +
			"this\ndirectory answers; if none runs, the extension that has the tool is started and stopped\nagain.",
		ValidArgsFunction: hosts.CompleteTool(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			return toolSchema(cmd.Context(), c, args[0], toolset)
		},
	}
	schema.Flags().StringVar(&toolset, "toolset", "",
		"show the tool that clients with the toolset `NAME` call so (default: the registered one)")
	cmd := console.Group("tools", "List, find, export and describe the tools of all extensions", list, toolsFind(c),
		toolsExport(c), schema, toolsShow(c), toolsAccept(c))
	cmd.RunE, cmd.Annotations = list.RunE, list.Annotations // exthost tools means exthost tools list
	return cmd
}

// viewerFlags adds --caller and --toolset.
func viewerFlags(cmd *cobra.Command, v *viewer) {
	cmd.Flags().StringVar(&v.caller, "caller", "",
		"show what policies offer to this `CALLER` (default: to an anonymous one)")
	cmd.Flags().StringVar(&v.toolset, "toolset", "",
		"show what clients with the toolset `NAME` see, under its names (default: all tools)")
}

func toolsList(c *console.Console) *cobra.Command {
	var v viewer
	cmd := &cobra.Command{
		Use:         "list",
		Short:       "List every tool with its cost in tokens",
		Annotations: console.AsksHost,
		Args:        console.NoArgs,
		Long: "List the tools that a client is offered, with an estimate of what each costs in every " +
			"model\nrequest, its risk (the most that a call can do), and in a cluster the nodes that have it. Tools " +
			"that\npolicies hide from the caller are named on stderr. " + askedHost,
		RunE: func(cmd *cobra.Command, _ []string) error { return listTools(cmd.Context(), c, v) },
	}
	viewerFlags(cmd, &v)
	return cmd
}

func listTools(ctx context.Context, c *console.Console, v viewer) error {
	list, err := offered(ctx, c, v)
	if err != nil {
		return err
	}
	names, sum := []string{}, 0
	rows := [][]string{{"TOOL", "TOKENS", "RISK", "DESCRIPTION"}}
	clustered := slices.ContainsFunc(list.Tools, func(t httpserver.Tool) bool { return len(t.Nodes) > 0 })
	add := func(node string, row ...string) {
		if clustered {
			row = slices.Insert(row, 1, node)
		}
		rows = append(rows, row)
	}
	if clustered {
		rows[0] = slices.Insert(rows[0], 1, "NODE")
	}
	for _, t := range list.Tools {
		names, sum = append(names, t.Name), sum+t.Tokens
		add(cmp.Or(strings.Join(t.Nodes, ", "), "-"), t.Name, strconv.Itoa(t.Tokens), string(t.Risk),
			hosts.Description(t.Description, t.Extension))
	}
	add("", console.Plural(len(list.Tools), "tool"), strconv.Itoa(sum), "", "")
	return c.Print(console.Document{Kind: "tools", Value: list.Tools, Names: names, Rows: rows})
}

// offered returns the tools that v is offered, and prints on stderr why others are missing.
func offered(ctx context.Context, c *console.Console, v viewer) (httpserver.ToolList, error) {
	from, end, err := openSource(ctx, c, nil)
	if err != nil {
		return httpserver.ToolList{}, err
	}
	defer end()
	list, err := from.tools(ctx, v)
	if err != nil {
		return list, err
	}
	return list, printLacking(ctx, c, from, list.Hidden)
}

// printLacking prints on stderr why tools are missing in a list: their extensions do not run or are not loaded, or
// policies hide them.
func printLacking(ctx context.Context, c *console.Console, from source, hidden []string) error {
	s, err := from.status(ctx)
	if err != nil {
		return err
	}
	hosts.PrintProblems(c, s)
	if from.running != nil {
		if names := from.running.Unloaded(ctx, c, s); names != nil {
			c.Info("%s", console.Safe(hosts.UnloadedText(names)))
		}
	}
	if len(hidden) > 0 {
		c.Info("policies hide %s from this caller: %s", console.Plural(len(hidden), "tool"),
			console.Safe(strings.Join(hidden, ", ")))
	}
	return nil
}

func toolSchema(ctx context.Context, c *console.Console, name, toolset string) error {
	owners := hosts.Owners(name)
	if toolset != "" { // whose names say nothing about extensions
		owners = nil
	}
	from, end, err := openSource(ctx, c, owners)
	if err != nil {
		return err
	}
	defer end()
	descriptor, err := from.descriptor(ctx, name, toolset)
	if errors.Is(err, errNotThere) { // the extension was added after the host started
		var h *exthost.Host
		if h, err = hosts.Inspect(ctx, c, hosts.Owners(name)); err != nil {
			return err
		}
		defer h.Close()
		descriptor, err = source{opened: h}.descriptor(ctx, name, toolset)
	}
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, descriptor, "", "  "); err != nil {
		return err
	}
	return c.Print(console.Document{
		Kind:  "tool",
		Value: descriptor,
		Names: []string{name},
		Text:  console.SafeJSON(b.Bytes()),
	})
}

func toolsExport(c *console.Console) *cobra.Command {
	var names []string
	for _, f := range tools.Formats() {
		names = append(names, string(f))
	}
	var format, file string
	var deferred bool
	var v viewer
	cmd := &cobra.Command{
		Use:         "export",
		Short:       "Print the tools as a model vendor's API takes them",
		Annotations: console.AsksHost,
		Long: "Print the tools that a client is offered as one JSON document for a vendor's API. A tool that\n" +
			"the vendor would refuse is left out and named on stderr with the reason.\n" + askedHost,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			next := "exthost tools export -f " + cmp.Or(text.Nearest(format, names), names[0])
			if err := console.OneOf(next, "--format", format, names); err != nil {
				return err
			}
			if err := c.JSONOnly(cmd); err != nil {
				return err
			}
			return exportTools(cmd.Context(), c, tools.Format(format), file, deferred, v)
		},
	}
	viewerFlags(cmd, &v)
	cmd.Flags().StringVarP(&format, "format", "f", "anthropic", "`FORMAT` of the vendor: "+strings.Join(names, ", "))
	cmd.Flags().BoolVar(&deferred, "defer", false,
		"mark tools, but those of tools.favourites, as loaded on demand, and add the vendor's own search: anthropic "+
			"and openai")
	cmd.Flags().StringVar(&file, "file", "", "write to `FILE` instead of stdout")
	console.CompleteFlag(cmd, "format", names)
	return cmd
}

func exportTools(ctx context.Context, c *console.Console, format tools.Format, path string, deferred bool, v viewer,
) error {
	from, end, err := openSource(ctx, c, nil)
	if err != nil {
		return err
	}
	defer end()
	out, err := from.export(ctx, format, deferred, v)
	if err != nil {
		return err
	}
	if err := printLacking(ctx, c, from, out.Hidden); err != nil {
		return err
	}
	for _, o := range out.Omitted {
		c.Warn("%s left out: %s", console.Safe(o.Tool), console.Safe(o.Reason))
	}
	var b bytes.Buffer
	if err := json.Indent(&b, out.Definitions, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	if path != "" {
		return file.WriteAtomic(path, b.Bytes())
	}
	_, err = io.WriteString(c.Out, console.SafeJSON(b.Bytes()))
	return err
}
