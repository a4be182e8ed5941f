package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/status"
)

func (a *app) hooksCommand() *cobra.Command {
	list := a.hooksListCommand()
	cmd := a.group("hooks", "List and try hooks, and import those of Claude Code", list, a.hooksTestCommand(), a.hooksImportCommand())
	cmd.RunE = list.RunE // alone, it lists
	return cmd
}

func (a *app) hooksListCommand() *cobra.Command {
	var event string
	cmd := &cobra.Command{
		Use: "list", Short: "List hooks in the order in which they run, starting nothing", Args: noArgs,
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
			return a.listHooks(cmd, only)
		},
	}
	cmd.Flags().StringVar(&event, "event", "", "only those of one `EVENT`, by our name or Claude Code's")
	completeFlag(cmd, "event", eventNames())
	return cmd
}

func eventNames() (names []string) {
	for _, e := range manifest.HookEvents() {
		names = append(names, string(e))
	}
	return names
}

// hookEvent reads an event's name.
func hookEvent(name string) (manifest.HookEvent, error) {
	if e, ok := manifest.ParseHookEvent(name); ok {
		return e, nil
	}
	text := fmt.Sprintf("there is no event %q", name)
	if near := nearest.Of(name, append(eventNames(), "PreToolUse", "PostToolUse", "UserPromptSubmit")); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	}
	return "", usagef("", "%s; there is %s", text, strings.Join(eventNames(), ", "))
}

func (a *app) listHooks(cmd *cobra.Command, only manifest.HookEvent) error {
	h, err := a.open(cmd.Context(), none)
	if err != nil {
		return err
	}
	defer h.Close()
	a.printProblems(h.Status())
	list, names := []status.Hook{}, []string{}
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
	rows = append(rows, []string{plural(list, "hook")})
	return a.print(document{Kind: "hooks", Value: list, Names: names, Rows: rows})
}
