package govern

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/protocol"
)

func hooksTest(c *console.Console) *cobra.Command {
	var tool, data string
	cmd := &cobra.Command{
		Use:   "test EVENT",
		Short: "Run the hooks of one event on a sample and show what each does",
		Long: "Run the hooks of an event on a sample, and print what each answers and how long it takes.\n" +
			"The hooks really run and have their usual effects; extensions that have hooks are started\n" +
			"for it. The exit code is 6 when the outcome is a denial.",
		Example: "  exthost policy hooks test PreToolUse --tool ext_notes_add \\\n    -d '{\"text\": \"buy milk\"}'\n" +
			"  exthost policy hooks test before_message -d '{\"prompt\": \"hello\"}'",
		Args: console.One("an event such as before_tool_call"),
		RunE: func(cmd *cobra.Command, args []string) error { return testHooks(cmd.Context(), c, args[0], tool, data) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return eventNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().StringVar(&tool, "tool", "", "the `TOOL` that is called, by its registered name")
	cmd.Flags().StringVarP(&data, "data", "d", "",
		"the arguments, the result after a call, or what else the event has, as one `JSON` object; - reads stdin")
	if err := cmd.RegisterFlagCompletionFunc("tool", hosts.CompleteTool(c)); err != nil {
		panic(err) // cmd has no such flag
	}
	return cmd
}

func testHooks(ctx context.Context, c *console.Console, name, tool, data string) error {
	event, err := hookEvent(name)
	if err != nil {
		return err
	}
	payload, err := c.ReadObject(data)
	if err != nil {
		return err
	}
	h, err := hosts.Inspect(ctx, c, hosts.Owners(tool))
	if err != nil {
		return err
	}
	defer h.Close()
	hosts.PrintProblems(c, h.Status())
	e := hooks.Event{Point: hooks.Point(event), Tool: tool, Call: "call_test", Payload: payload}
	if _, known := h.Tools().Lookup(tool); tool != "" && !known {
		c.Warn("there is no tool %s; its hooks run all the same", console.Safe(tool))
	}
	if e.Point == hooks.ToolCallFailed {
		e.Arguments, e.Error = payload, protocol.Errorf(protocol.ExtensionError, "a sample failure")
	}
	out, err := h.Admin().TestHooks(ctx, e)
	if err != nil && protocol.KindOf(err) != protocol.Rejected {
		return err
	}
	return printOutcome(c, out)
}

// hookResult is the result of one hook, as printed.
type hookResult struct {
	Hook      string            `json:"hook"`
	Extension string            `json:"extension,omitempty"`
	Result    string            `json:"result"`
	Error     string            `json:"error,omitempty"`
	Took      protocol.Duration `json:"took_ms"`
}

func printOutcome(c *console.Console, out hooks.Outcome) error {
	results, names := []hookResult{}, []string{}
	rows := [][]string{{"HOOK", "TOOK", "RESULT"}}
	for _, s := range out.Steps {
		r := hookResult{Hook: s.Handler, Extension: s.Extension, Result: resultOf(s), Took: protocol.Duration(s.Took)}
		shown := r.Result
		if s.Err != nil {
			r.Error = s.Err.Error()
			shown += ": " + r.Error
		}
		results, names = append(results, r), append(names, s.Handler)
		rows = append(rows, []string{s.Handler, s.Took.Round(10 * time.Microsecond).String(), shown})
	}
	decision, code := cmp.Or(string(out.Decision), "continue"), console.ExitOK
	if out.Decision == hooks.Deny {
		code = console.ExitDenied
	}
	verdict := decision
	if out.Reason != "" {
		verdict += ", by " + out.By + ": " + out.Reason
	}
	rows = append(rows, []string{console.Plural(len(results), "hook") + " → " + verdict})
	if out.Changed {
		rows = append(rows, []string{"changed to " + string(out.Payload)})
	}
	for _, text := range out.Context {
		rows = append(rows, []string{"context: " + text})
	}
	return c.Print(console.Document{
		Kind:  "outcome",
		Names: names,
		Rows:  rows,
		Code:  code,
		Value: struct {
			Decision string          `json:"decision"`
			Reason   string          `json:"reason,omitempty"`
			By       string          `json:"by,omitempty"`
			Changed  bool            `json:"changed"`
			Payload  json.RawMessage `json:"payload"`
			Context  []string        `json:"context"`
			Hooks    []hookResult    `json:"hooks"`
		}{decision, out.Reason, out.By, out.Changed, out.Payload, console.OrEmpty(out.Context), results},
	})
}

// resultOf names the effects of a hook.
func resultOf(s hooks.Step) string {
	r := s.Reply
	switch {
	case s.Err != nil:
		return "failed"
	case r == nil:
		return "continue"
	}
	var did []string
	for _, effect := range []struct {
		is   bool
		word string
	}{
		{r.Decision != hooks.None, string(r.Decision)},
		{r.Abort, "abort"},
		{r.Override != nil || r.Replace != nil, "change"},
		{r.Context != "", "context"},
	} {
		if effect.is {
			did = append(did, effect.word)
		}
	}
	return cmp.Or(strings.Join(did, ", "), "continue")
}
