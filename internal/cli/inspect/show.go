package inspect

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/cli/console"
)

func toolsShow(c *console.Console) *cobra.Command {
	var v viewer
	cmd := &cobra.Command{
		Use:         "show --toolset NAME",
		Short:       "Show what a toolset makes of its tools, and the tokens saved",
		Annotations: console.AsksHost,
		Args:        console.NoArgs,
		Long: "Show the tools that a toolset changes: the name and the arguments that clients see, below them\n" +
			"those that the extension states, and the tokens of both. " + askedHost,
		RunE: func(cmd *cobra.Command, _ []string) error { return showTools(cmd.Context(), c, v) },
	}
	viewerFlags(cmd, &v)
	return cmd
}

func showTools(ctx context.Context, c *console.Console, v viewer) error {
	if v.toolset == "" {
		return console.Usagef("exthost tools show --toolset NAME; exthost config show has the names, below toolsets",
			"exthost tools show needs a toolset")
	}
	list, err := offered(ctx, c, v)
	if err != nil {
		return err
	}
	before, after, changed := 0, 0, []httpserver.Tool{}
	names, rows := []string{}, [][]string{{"TOOL", "TOKENS", "ARGUMENTS"}}
	for _, t := range list.Tools {
		after += t.Tokens
		if t.Was == nil {
			before += t.Tokens
			continue
		}
		before += t.Was.Tokens
		changed, names = append(changed, t), append(names, t.Name)
		rows = append(rows, []string{t.Name, strconv.Itoa(t.Tokens), t.Arguments},
			[]string{"  was " + t.Was.Name, strconv.Itoa(t.Was.Tokens), t.Was.Arguments})
	}
	sum := fmt.Sprintf("of %d before", before)
	if before > after {
		sum += fmt.Sprintf(", %d %% less", 100*(before-after)/before)
	}
	rows = append(rows, []string{console.Plural(len(list.Tools), "tool"), strconv.Itoa(after), sum})
	return c.Print(console.Document{Kind: "tools", Value: changed, Names: names, Rows: rows})
}
