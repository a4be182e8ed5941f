package inspect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/listing/toolsearch"
)

func toolsFind(c *console.Console) *cobra.Command {
	var v viewer
	cmd := &cobra.Command{
		Use:         "find QUERY…",
		Short:       "Find tools by the words of a task",
		Annotations: console.AsksHost,
		Long: fmt.Sprintf("Find the tools that a client is offered whose names, descriptions and arguments have the "+
			"words\n"+
			"of QUERY: the best %d, and up to %d others of the best extensions, and up to %d skills. The\n"+
			"arguments are listed as (argument: type, optional?: type).\n",
			toolsearch.MaxBest, toolsearch.MaxMore, toolsearch.MaxSkills) + askedHost,
		Args: console.AtLeastOne("exthost tools find close an issue", "exthost tools find needs the words of a task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return findTools(cmd.Context(), c, strings.Join(args, " "), v)
		},
	}
	viewerFlags(cmd, &v)
	return cmd
}

func findTools(ctx context.Context, c *console.Console, query string, v viewer) error {
	from, end, err := openSource(ctx, c, nil)
	if err != nil {
		return err
	}
	defer end()
	found, err := from.find(ctx, query, v)
	if err != nil {
		return err
	}
	if err := printLacking(ctx, c, from, nil); err != nil {
		return err
	}
	if len(found.Best) == 0 && len(found.Skills) == 0 {
		c.Info("no tool has these words%s", console.Safe(otherTools(found.Extensions)))
	}
	for _, id := range slices.Sorted(maps.Keys(found.Left)) {
		c.Info("%s of %s not shown", console.Plural(found.Left[id], "tool"), console.Safe(id))
	}
	names, rows := []string{}, [][]string{{"TOOL", "DESCRIPTION", "ARGUMENTS"}}
	for _, t := range slices.Concat(found.Best, found.More) {
		names = append(names, t.Name)
		rows = append(rows, []string{t.Name, t.Summary, t.Arguments})
	}
	for _, k := range found.Skills {
		names = append(names, k.URI)
		rows = append(rows,
			[]string{k.URI, k.Description, "a skill: exthost skills show " + k.Extension + "/" + k.Name})
	}
	return c.Print(console.Document{Kind: "found", Value: found, Names: names, Rows: rows, Drop: []string{"ARGUMENTS"}})
}

// otherTools names the extensions that have tools.
func otherTools(extensions []string) string {
	if len(extensions) == 0 {
		return ""
	}
	return "; there are tools of " + strings.Join(extensions, ", ")
}
