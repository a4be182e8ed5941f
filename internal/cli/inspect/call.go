package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/cli/toolcall"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// Call calls one tool.
func Call(c *console.Console) *cobra.Command {
	var data string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "call TOOL [key=value | key:=JSON ...]",
		Short: "Call one tool and print its result",
		Long: "Call a tool of the exthost that runs for this directory; if none runs, start the extension\n" +
			"that has the tool for this one call. Print the text of the result, or with -o json all of\n" +
			"it. Arguments are key=value pairs, typed by the tool's schema (key:=JSON gives the value in\n" +
			"JSON, a repeated key makes a list), laid over -d JSON, or -d - for stdin.",
		Example: "  exthost call ext_notes_add text='buy milk' tags=home tags=food\n" +
			"  exthost call ext_notes_search limit=5 -o json\n" +
			"  echo '{\"text\": \"buy milk\"}' | exthost call ext_notes_add -d -",
		Args:              console.AtLeastOne("exthost tools list", "exthost call needs the name of a tool"),
		ValidArgsFunction: completeCall(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("timeout") && timeout <= 0 {
				return console.Usagef("", "--timeout %s: it has to be more than nothing", timeout)
			}
			ctx := cmd.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			err := call(ctx, c, &request{tool: args[0], pairs: args[1:]}, data)
			if timeout > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
				return &console.Error{Code: console.ExitCanceled, Text: fmt.Sprintf("%s: no answer within %s, its start included; it may have acted", args[0], timeout), Hint: "a longer --timeout"}
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&data, "data", "d", "", "arguments as one `JSON` object; - reads stdin")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this `LONG`, start included (default: the extension's own timeouts)")
	return cmd
}

// request is one call as the command line states it.
type request struct {
	tool  string
	pairs []string        // key=value
	given json.RawMessage // the object below the pairs
}

func (q *request) arguments(schema json.RawMessage) (json.RawMessage, error) {
	return toolcall.Arguments(q.given, q.pairs, q.tool, schema)
}

func call(ctx context.Context, c *console.Console, q *request, data string) (err error) {
	if q.given, err = c.ReadObject(data); err != nil {
		return err
	}
	r, cfg, broken := hosts.Reach(ctx, c)
	result, err := protocol.ToolResult(nil), errNotThere
	if r != nil {
		result, err = q.toRunning(ctx, r)
	}
	recorded := true // a host or the audit log can explain the decisions of policies
	if errors.Is(err, errNotThere) {
		if broken != nil {
			return broken
		}
		recorded = cfg.Audit.Path != ""
		result, err = q.alone(ctx, c, cfg)
	}
	switch {
	case err != nil && recorded:
		return explained(err)
	case err != nil:
		return err
	}
	return printResult(c, q.tool, result)
}

// explained adds the command that explains the decision in an error, if there is one.
func explained(err error) error {
	var data struct {
		Decision string `json:"decision_id"`
	}
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok || json.Unmarshal(e.Data, &data) != nil || data.Decision == "" {
		return err
	}
	return &console.Error{Code: console.ExitCode(err), Text: strings.Join(console.DescribeKind(e), "\n"), Hint: "exthost policy explain " + data.Decision}
}

// errNotThere is the error of a call whose extension no running host has: there is no
// host, or the extension was added after its start.
var errNotThere = errors.New("not there")

// alone starts the extension for this call only.
func (q *request) alone(ctx context.Context, c *console.Console, cfg *config.Config) (protocol.ToolResult, error) {
	h, err := hosts.Open(ctx, c, cfg, exthost.Options{Start: hosts.ForCall("", q.tool)})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	entry, ok := h.Tools().Lookup(q.tool)
	if !ok {
		return nil, hosts.UnknownTool(h.Status(), q.tool)
	}
	arguments, err := q.arguments(entry.InputSchema)
	if err != nil {
		return nil, err
	}
	return h.Call(ctx, q.tool, arguments)
}

// toRunning has the running host make the call.
func (q *request) toRunning(ctx context.Context, r *hosts.Running) (protocol.ToolResult, error) {
	path := "/api/v1/tools/" + url.PathEscape(q.tool)
	var t httpserver.Tool
	err := r.Get(ctx, path, &t)
	if protocol.KindOf(err) == protocol.ToolNotFound {
		s, err := r.Status(ctx)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(s.Extensions, func(x status.Extension) bool { return tools.MayOwn(x.ID, q.tool) }) {
			return nil, errNotThere
		}
		return nil, hosts.UnknownTool(s, q.tool)
	}
	if err != nil {
		return nil, err
	}
	arguments, err := q.arguments(rawjson.Get(t.Descriptor, "inputSchema"))
	if err != nil {
		return nil, err
	}
	var result json.RawMessage
	err = r.Post(ctx, path+"/call", arguments, &result)
	return protocol.ToolResult(result), err
}

// printResult prints the text of a result, or with -o all of it. A result that the tool
// marks as an error is an error of the command too.
func printResult(c *console.Console, name string, result protocol.ToolResult) error {
	if c.Output == "name" {
		return console.Usagef("", "there is no -o name of a result; there is table, json and yaml")
	}
	if c.Output != "table" {
		code := console.ExitOK
		if result.IsError() {
			code = console.ExitExtension
		}
		return c.Print(console.Document{Kind: "result", Value: json.RawMessage(result), Code: code})
	}
	text, others := toolcall.Content(result)
	if result.IsError() {
		return &console.Error{Code: console.ExitExtension, Text: name + " reports an error: " + text, Hint: "exthost tools schema " + name}
	}
	for _, what := range others {
		c.Warn("%s is not shown here, -o json has it", console.Safe(what))
	}
	if console.IsTerminal(c.Out) {
		text = console.SafeText(text) // elsewhere the exact bytes are the data
	}
	if text == "" && len(others) > 0 {
		return nil
	}
	_, err := fmt.Fprintln(c.Out, text)
	return err
}

// completeCall completes the tool, then the keys of its arguments.
func completeCall(c *console.Console) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) (keys []string, _ cobra.ShellCompDirective) {
		if len(args) == 0 {
			return hosts.CompleteTool(c)(cmd, args, word)
		}
		h := hosts.Peek(cmd.Context(), c)
		if h == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer h.Close()
		if e, ok := h.Tools().Lookup(args[0]); ok {
			for key := range rawjson.Members(rawjson.Get(e.InputSchema, "properties")) {
				keys = append(keys, key+"=")
			}
		}
		return keys, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}
