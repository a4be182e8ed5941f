package govern

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/manifest"
)

// Hooks lists, tests and imports hooks.
func Hooks(c *console.Console) *cobra.Command {
	list := hooksList(c)
	cmd := console.Group("hooks", "List and try hooks, and import those of Claude Code", list, hooksTest(c), hooksImport(c))
	cmd.RunE = list.RunE // exthost hooks is exthost hooks list
	return cmd
}

func hooksList(c *console.Console) *cobra.Command {
	var event string
	cmd := &cobra.Command{
		Use: "list", Short: "List hooks in the order in which they run, starting nothing", Args: console.NoArgs,
		Long: "List the hooks of the configuration and of the extensions, by event and in the order in\n" +
			"which they run. What an extension answers itself is as its manifest declares it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			only := manifest.HookEvent("")
			if event != "" {
				var err error
				if only, err = hookEvent(event); err != nil {
					return err
				}
			}
			return listHooks(cmd.Context(), c, only)
		},
	}
	cmd.Flags().StringVar(&event, "event", "", "only those of one `EVENT`, by our name or Claude Code's")
	console.CompleteFlag(cmd, "event", eventNames())
	return cmd
}

func eventNames() (names []string) {
	for _, e := range manifest.HookEvents() {
		names = append(names, string(e))
	}
	return names
}

// hookEvent reads the name of an event.
func hookEvent(name string) (manifest.HookEvent, error) {
	if e, ok := manifest.ParseHookEvent(name); ok {
		return e, nil
	}
	meant := console.DidYouMean(name, append(eventNames(), "PreToolUse", "PostToolUse", "UserPromptSubmit"))
	return "", console.Usagef("", "there is no event %q%s; there is %s", name, meant, strings.Join(eventNames(), ", "))
}

func listHooks(ctx context.Context, c *console.Console, only manifest.HookEvent) error {
	h, err := hosts.Inspect(ctx, c, hosts.None)
	if err != nil {
		return err
	}
	defer h.Close()
	hosts.PrintProblems(c, h.Status())
	list, names := []exthost.Hook{}, []string{}
	rows := [][]string{{"EVENT", "PRIORITY", "SOURCE", "MATCHER", "TIMEOUT", "ON ERROR", "HOOK"}}
	for _, hook := range h.Admin().Hooks() {
		if only != "" && hook.Event != string(only) {
			continue
		}
		list, names = append(list, hook), append(names, hook.Name)
		matcher := cmp.Or(hook.Matcher, "*")
		if hook.Own {
			matcher += " (own tools)"
		}
		rows = append(rows, []string{hook.Event, fmt.Sprint(hook.Priority), hook.Source, matcher,
			(time.Duration(hook.TimeoutMS) * time.Millisecond).String(), hook.OnError, hook.Name})
	}
	rows = append(rows, []string{console.Plural(len(list), "hook")})
	return c.Print(console.Document{Kind: "hooks", Value: list, Names: names, Rows: rows})
}
