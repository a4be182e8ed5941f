package govern

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/status"
)

// Policy returns exthost policy, which shows policies and their decisions.
func Policy(c *console.Console) *cobra.Command {
	return console.Group("policy", "Look at the policies and hooks, try a call",
		policyList(c), policyTest(c), policyPins(c), hooksCommand(c))
}

func policyList(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:         "list",
		Short:       "List the policies in their order, with what they decided",
		Annotations: console.AsksHost,
		Long: "List the policies in the order they are asked. If a host is running in this directory, the\n" +
			"list includes their decisions so far; for a policy in shadow mode, how often it would have\n" +
			"acted.",
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := policies(cmd.Context(), c)
			if err != nil {
				return err
			}
			if len(list) == 0 {
				c.Info("no policy is configured: plugins of the configuration lists them")
			}
			return c.Print(hosts.PolicyDocument(list))
		},
	}
}

// policies returns the policies of the running host or, if none runs, those of the configuration.
func policies(ctx context.Context, c *console.Console) ([]status.Policy, error) {
	r, cfg, broken := hosts.Reach(ctx, c)
	if r != nil {
		s, err := r.Status(ctx)
		return s.Policies, err
	}
	if broken != nil {
		return nil, broken
	}
	h, err := hosts.Look(ctx, c, cfg)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return h.Status().Policies, nil
}

func policyTest(c *console.Console) *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:         "test CALL.json | --from CASSETTE",
		Short:       "Try what the policies would do about a call, without making it",
		Annotations: console.AsksHost,
		Long: "Show what each policy decides about a call, without making it. - reads stdin. The file holds\n" +
			"{\"tool\", \"arguments\", \"caller\", \"session\"}, or \"method\" and \"params\" in place of the first\n" +
			"two. No person is asked and nothing is recorded, but policies that count do count the call.\n" +
			"The exit code is 6 when the call would be denied.\n\n" +
			"--from tries all calls of tools in a cassette, which exthost calls record wrote, and lists those that\n" +
			"are decided otherwise: they reached their extensions when they were recorded. What policies in\n" +
			"shadow mode would do is listed too, so that a rule can be rehearsed before it holds.",
		Example: "  echo '{\"tool\": \"ext_notes_add\", \"arguments\": {\"text\": \"x\"}}' |\n    exthost policy " +
			"test -",
		Args: console.AtMostOne("a file with a call, or - for stdin"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if from != "" && len(args) == 0 {
				return testRecorded(cmd.Context(), c, from)
			}
			if len(args) == 0 || from != "" {
				return console.Usagef("exthost policy test --help",
					"exthost policy test needs a file with a call, - for stdin, or --from CASSETTE")
			}
			data, err := readCall(c, args[0])
			if err != nil {
				return err
			}
			result, err := testCall(cmd.Context(), c, data)
			if err != nil {
				return err
			}
			if err := c.Print(console.Document{
				Kind:  "test",
				Value: result,
				Text:  traceText(result.Trace, c.Layout(true, traceDrop...)),
			}); err != nil || result.Error == nil {
				return err
			}
			return result.Error.Err()
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "try the recorded calls of a `CASSETTE`")
	return cmd
}

func readCall(c *console.Console, name string) ([]byte, error) {
	if name == "-" {
		data, err := io.ReadAll(io.LimitReader(c.In, console.MaxInput+1))
		if err == nil && len(data) > console.MaxInput {
			err = console.Usagef("", "the call on stdin is over %d MiB", console.MaxInput>>20)
		}
		return data, err
	}
	return console.ReadFile(name, console.MaxInput, "exthost policy test --help")
}

// testCall tests the call in the running host or, if none runs, in a host that starts only the policies and the
// extension of the tool.
func testCall(ctx context.Context, c *console.Console, data []byte) (result httpserver.TestResult, err error) {
	call, err := httpserver.ReadTestCall(data)
	if err != nil {
		return result, err
	}
	r, cfg, broken := hosts.Reach(ctx, c)
	if r != nil {
		body, _ := json.Marshal(call) // it was decoded from JSON
		err = r.Post(ctx, "/api/v1/policies/test", body, &result)
		return result, err
	}
	if broken != nil {
		return result, broken
	}
	h, err := hosts.Open(ctx, c, cfg,
		exthost.Options{Start: hosts.ForCall(call.Extension, call.Tool), Mode: exthost.Mode{Inspect: true}})
	if err != nil {
		return result, err
	}
	defer h.Close()
	result, err = httpserver.NewTestResult(h.Admin().TestCall(ctx, call.Call()))
	if console.ExitCode(err) == console.ExitNotFound && call.Tool != "" && call.Extension == "" {
		err = hosts.UnknownTool(h.Status(), call.Tool)
	}
	return result, err
}

func policyPins(c *console.Console) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:         "pins",
		Short:       "Show what changed since it was pinned or accepted",
		Annotations: console.AsksHost,
		Long: "Show what changed since it was pinned or accepted, with the differences: what a policy of\n" +
			"builtin: pin holds back because it differs from what was first seen or is new, what is held\n" +
			"back for text that no reader sees, and changed tools; --all shows all that is pinned.",
		Example: "  exthost policy pins\n  exthost tools accept notes add",
		Args:    console.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return pins(cmd.Context(), c, all) },
	}
	cmd.Flags().BoolVar(&all, "all", false, "also tools that have not changed")
	return cmd
}

func pins(ctx context.Context, c *console.Console, all bool) error {
	pinned, err := hosts.OpenPins(ctx, c)
	if err != nil {
		return err
	}
	if err := pinned.Close(); err != nil {
		return err
	}
	shown, names := []status.Pin{}, []string{}
	for _, p := range pinned.List {
		if p.Digest != "" || all {
			shown, names = append(shown, p), append(names, p.Extension+" "+p.Label)
		}
	}
	text := hosts.PinsText(shown)
	if text == "" {
		text = fmt.Sprintf("nothing is held back, of %s", console.Plural(len(pinned.List), "pinned item"))
	}
	return c.Print(console.Document{Kind: "pins", Value: shown, Names: names, Text: text})
}
