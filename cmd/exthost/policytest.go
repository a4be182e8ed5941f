package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

func (a *app) policyTestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "test CALL.json",
		Short: "Try what the policies would do about a call, without making it",
		Long: "Hold a call against the policies and show what each decides, without making it. - reads\n" +
			"stdin. The file holds {\"tool\", \"arguments\", \"caller\", \"session\"}, or \"method\" and \"params\"\n" +
			"in place of the first two. Nobody is asked and nothing is recorded, but policies that count\n" +
			"do count it. The exit code is 6 when the call would be denied.",
		Example: "  echo '{\"tool\": \"ext_notes_add\", \"arguments\": {\"text\": \"x\"}, \"caller\": \"ada\"}' | exthost policy test -",
		Args:    one("a file with a call, or - for stdin"),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := a.readFile(args[0])
			if err != nil {
				return err
			}
			result, err := a.testCall(cmd.Context(), data)
			if err != nil {
				return err
			}
			if err := a.print(document{Kind: "test", Value: result, Text: a.traceText(result.Trace)}); err != nil || result.Error == nil {
				return err
			}
			return result.Error.Err()
		},
	}
}

// readFile reads a file; - is stdin.
func (a *app) readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.in)
	}
	return readNamed(name, maxData, "exthost policy test --help")
}

// testCall has the running host test the call; else one that starts only the
// policies and whose tool it is.
func (a *app) testCall(ctx context.Context, data []byte) (result httpserver.TestResult, err error) {
	c, err := httpserver.ReadTestCall(data)
	if err != nil {
		return result, err
	}
	r, cfg, broken := a.reach(ctx)
	if r != nil {
		body, _ := json.Marshal(c) // was read as JSON
		return result, r.do(ctx, http.MethodPost, "/api/v1/policies/test", body, &result)
	}
	if broken != nil {
		return result, broken
	}
	h, err := a.openWith(ctx, cfg, exthost.Options{Start: callStart(c.Extension, c.Tool), Mode: exthost.Mode{Inspect: true}})
	if err != nil {
		return result, err
	}
	defer h.Close()
	result, err = httpserver.NewTestResult(h.Admin().TestCall(ctx, c.Call()))
	if exitCode(err) == exitNotFound && c.Tool != "" && c.Extension == "" {
		err = unknownTool(h.Status(), c.Tool)
	}
	return result, err
}

// callStart lets those start that a call of the tool needs: the extension that may
// have it, and the policies.
func callStart(extension, tool string) func(id string) bool {
	return func(id string) bool {
		return strings.HasPrefix(id, status.PolicyPrefix) || id == extension || tool != "" && tools.MayOwn(id, tool)
	}
}
