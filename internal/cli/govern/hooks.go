package govern

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/local/hookimport"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/status"
)

// hooksCommand returns exthost policy hooks, which lists, tests and imports hooks.
func hooksCommand(c *console.Console) *cobra.Command {
	list := hooksList(c)
	cmd := console.Group("hooks", "List and try hooks, and import those of Claude Code", list, hooksTest(c),
		hooksImport(c))
	cmd.RunE, cmd.Annotations = list.RunE, list.Annotations // exthost policy hooks means exthost policy hooks list
	return cmd
}

func hooksList(c *console.Console) *cobra.Command {
	var event string
	cmd := &cobra.Command{
		Use:         "list",
		Short:       "List hooks in the order in which they run, starting nothing",
		Annotations: console.AsksHost,
		Args:        console.NoArgs,
		Long: "List the hooks of the configuration and of the extensions, by event and in the order in\n" +
			"which they run: those of the host that runs in this directory or, without one, of the files.\n" +
			"Hooks of an extension that has not started are listed as its manifest declares them.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			only, err := hookEvent(event)
			if event != "" && err != nil {
				return err
			}
			return listHooks(cmd.Context(), c, only)
		},
	}
	cmd.Flags().StringVar(&event, "event", "", "only hooks of one `EVENT`, by our name or Claude Code's")
	console.CompleteFlag(cmd, "event", eventNames())
	return cmd
}

func eventNames() (names []string) {
	for _, e := range manifest.HookEvents() {
		names = append(names, string(e))
	}
	return names
}

func hookEvent(name string) (manifest.HookEvent, error) {
	if e, ok := manifest.ParseHookEvent(name); ok {
		return e, nil
	}
	meant := console.DidYouMean(name, append(eventNames(), "PreToolUse", "PostToolUse", "UserPromptSubmit"))
	return "", console.Usagef("", "there is no event %q%s; there is %s", name, meant, strings.Join(eventNames(), ", "))
}

func listHooks(ctx context.Context, c *console.Console, only manifest.HookEvent) error {
	s, all, err := allHooks(ctx, c)
	if err != nil {
		return err
	}
	hosts.PrintProblems(c, s)
	list, names := []status.Hook{}, []string{}
	rows := [][]string{{"EVENT", "PRIORITY", "SOURCE", "MATCHER", "TIMEOUT", "ON ERROR", "HOOK"}}
	for _, hook := range all {
		if only != "" && hook.Event != string(only) {
			continue
		}
		list, names = append(list, hook), append(names, hook.Name)
		matcher := cmp.Or(hook.Matcher, "*")
		if strings.HasPrefix(hook.Source, "extension ") && !hook.Own {
			matcher += " (of all extensions)"
		}
		rows = append(rows, []string{
			hook.Event,
			fmt.Sprint(hook.Priority),
			hook.Source,
			matcher,
			hook.Timeout.String(),
			hook.OnError,
			hook.Name,
		})
	}
	rows = append(rows, []string{console.Plural(len(list), "hook")})
	return c.Print(console.Document{Kind: "hooks", Value: list, Names: names, Rows: rows})
}

// allHooks returns the hooks of the running host or, if none runs, those of the configuration and the manifests.
func allHooks(ctx context.Context, c *console.Console) (s status.Status, list []status.Hook, err error) {
	r, cfg, broken := hosts.Reach(ctx, c)
	if r != nil {
		if s, err = r.Status(ctx); err != nil {
			return s, nil, err
		}
		var answer struct{ Hooks []status.Hook }
		err = r.Get(ctx, "/api/v1/hooks", &answer)
		return s, answer.Hooks, err
	}
	if broken != nil {
		return s, nil, broken
	}
	h, err := hosts.Look(ctx, c, cfg)
	if err != nil {
		return s, nil, err
	}
	defer h.Close()
	return h.Status(), h.Admin().Hooks(), nil
}

func hooksImport(c *console.Console) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Turn Claude Code's hooks into a hooks section",
		Long: "Read a settings.json of Claude Code, or the hooks.json of one of its plugins, and print its\n" +
			"hooks in the form of our configuration. Claude Code runs command lines in a shell, so they\n" +
			"are given to sh -c; there a hook that fails denies nothing, so on_error is allow. Settings\n" +
			"that cannot be carried over are reported on stderr.",
		Example: "  exthost policy hooks import ~/.claude/settings.json --file config/hooks.yaml",
		Args:    console.One("the path of a settings.json"),
		RunE:    func(_ *cobra.Command, args []string) error { return importHooks(c, args[0], file) },
	}
	cmd.Flags().StringVar(&file, "file", "", "write to a new `FILE` instead of stdout")
	return cmd
}

func importHooks(c *console.Console, path, file string) error {
	data, err := console.ReadFile(path, console.MaxSettings, "exthost policy hooks import ~/.claude/settings.json")
	if err != nil {
		return err
	}
	r, err := hookimport.Read(data, hookimport.Options{})
	if err != nil {
		return &console.Error{
			Code: console.ExitInvalid,
			Text: fmt.Sprintf("%s: %v", path, err),
			Hint: "the file is JSON, with hooks: {EVENT: [{matcher, hooks: [...]}]}",
		}
	}
	for _, n := range r.Notes {
		c.Note(n.Where, n.Dropped, n.Message)
	}
	if file == "" {
		return c.Print(console.Document{Kind: "import", Value: r, Text: console.SafeText(string(r.YAML()))})
	}
	if err := writeNew(file, r.YAML()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Err, "%s written to %s\n  next: exthost policy hooks list\n",
		console.Plural(len(r.Hooks), "hook"), console.Safe(file))
	return err
}

// writeNew writes a file that must not exist.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return &console.Error{
			Code: console.ExitFailed,
			Text: path + " is there already",
			Hint: "print the hooks without --file, and add them to it",
		}
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path) // a part of it would be in the way of the next attempt
	}
	return err
}
