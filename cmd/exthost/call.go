package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

func (a *app) callCommand() *cobra.Command {
	var data string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "call TOOL [key=value | key:=JSON ...]",
		Short: "Call one tool and print its result",
		Long: "Call a tool of the exthost that runs for this directory, or where none does start the\n" +
			"extension that has the tool for this one call; print the text of its result, or with -o json\n" +
			"all of it. Arguments are key=value pairs, typed by the tool's schema (key:=JSON\n" +
			"says it in JSON, a repeated key makes a list), laid over -d JSON, or -d - for stdin.",
		Example: "  exthost call ext_notes_add text='buy milk' tags=home tags=food\n" +
			"  exthost call ext_notes_search limit=5 -o json\n" +
			"  echo '{\"text\": \"buy milk\"}' | exthost call ext_notes_add -d -",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("exthost tools list", "exthost call needs the name of a tool")
			}
			return nil
		},
		ValidArgsFunction: a.completeCall,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("timeout") && timeout <= 0 {
				return usagef("", "--timeout %s: it has to be more than nothing", timeout)
			}
			ctx := cmd.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			err := a.call(ctx, args[0], args[1:], data)
			if timeout > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
				return &exitError{code: exitCanceled, text: fmt.Sprintf("%s: no answer within %s, its start included; it may have acted", args[0], timeout), hint: "a longer --timeout"}
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&data, "data", "d", "", "arguments as one `JSON` object; - reads stdin")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this `LONG`, start included (default: the extension's own timeouts)")
	return cmd
}

func (a *app) call(ctx context.Context, name string, pairs []string, data string) error {
	given, err := a.readData(data)
	if err != nil {
		return err
	}
	r, cfg, broken := a.reach(ctx)
	result, err := protocol.ToolResult(nil), errNotThere
	if r != nil {
		result, err = callRunning(ctx, r, name, pairs, given)
	}
	known := true // the decision of a policy, to somebody
	if errors.Is(err, errNotThere) {
		if broken != nil {
			return broken
		}
		known = cfg.Audit.Path != ""
		result, err = a.callAlone(ctx, cfg, name, pairs, given)
	}
	switch {
	case err != nil && known:
		return explained(err)
	case err != nil:
		return err
	}
	return a.printResult(name, result)
}

// explained is err, and if a policy has decided it, with how to look at the decision.
func explained(err error) error {
	var data struct {
		Decision string `json:"decision_id"`
	}
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok || json.Unmarshal(e.Data, &data) != nil || data.Decision == "" {
		return err
	}
	return &exitError{code: exitCode(err), text: strings.Join(describeKind(e), "\n"), hint: "exthost policy explain " + data.Decision}
}

// errNotThere says that no running host has the extension: there is none, or the
// extension came after its start.
var errNotThere = errors.New("not there")

// callAlone starts the extension for one call.
func (a *app) callAlone(ctx context.Context, cfg *config.Config, name string, pairs []string, given json.RawMessage) (protocol.ToolResult, error) {
	h, err := a.openWith(ctx, cfg, exthost.Options{Start: callStart("", name)})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	entry, ok := h.Tools().Lookup(name)
	if !ok {
		return nil, unknownTool(h.Status(), name)
	}
	arguments, err := withPairs(given, pairs, name, entry.InputSchema)
	if err != nil {
		return nil, err
	}
	return h.Call(ctx, name, arguments)
}

// callRunning has the host that runs already make the call.
func callRunning(ctx context.Context, r *running, name string, pairs []string, given json.RawMessage) (protocol.ToolResult, error) {
	t, err := r.tool(ctx, name)
	if protocol.KindOf(err) == protocol.ToolNotFound {
		s, err := r.status(ctx)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(s.Extensions, func(x status.Extension) bool { return tools.MayOwn(x.ID, name) }) {
			return nil, errNotThere
		}
		return nil, unknownTool(s, name)
	}
	if err != nil {
		return nil, err
	}
	arguments, err := withPairs(given, pairs, name, rawjson.Get(t.Descriptor, "inputSchema"))
	if err != nil {
		return nil, err
	}
	return r.call(ctx, name, arguments)
}

// maxData bounds what is read from stdin; no extension takes a longer line.
const maxData = 16 << 20

func (a *app) readData(data string) (json.RawMessage, error) {
	if data == "-" {
		read, err := io.ReadAll(io.LimitReader(a.in, maxData+1))
		if err != nil {
			return nil, err
		}
		if len(read) > maxData {
			return nil, usagef("", "the arguments on stdin are over %d MiB", maxData>>20)
		}
		data = string(read)
	}
	if strings.TrimSpace(data) == "" {
		return json.RawMessage("{}"), nil
	}
	raw := json.RawMessage(strings.TrimSpace(data))
	var object map[string]json.RawMessage
	err := json.Unmarshal(raw, &object)
	if err == nil && object == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return nil, usagef(`exthost call TOOL -d '{"key": "value"}'`, "the arguments are not a JSON object: %v", err)
	}
	return raw, nil
}

// printResult prints the text of a result, or with -o all of it. What the tool
// calls an error goes to stderr when it is only text.
func (a *app) printResult(name string, result protocol.ToolResult) error {
	if a.flags.output == "name" {
		return usagef("", "there is no -o name of a result; there is table, json and yaml")
	}
	if a.flags.output != "table" {
		if err := a.print(document{Kind: "result", Value: json.RawMessage(result)}); err != nil {
			return err
		}
		if result.IsError() {
			return errReported(exitExtension)
		}
		return nil
	}
	text, others := contentOf(result)
	if result.IsError() {
		return &exitError{code: exitExtension, text: name + " reports an error: " + text, hint: "exthost tools schema " + name}
	}
	for _, what := range others {
		fmt.Fprintf(a.err, "%s: %s is not shown here, -o json has it\n", a.paint(yellow, "warn"), safe(what))
	}
	if isTerminal(a.out) {
		text = safeText(text) // elsewhere the bytes are the data
	}
	if text == "" && len(others) > 0 {
		return nil
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// contentOf is the text of a result, or its structured content when it has no
// text, and what else is in it.
func contentOf(result protocol.ToolResult) (text string, others []string) {
	var r struct {
		Content []struct{ Type, MimeType string } `json:"content"`
	}
	_ = json.Unmarshal(result, &r) // a result without content has none
	for _, c := range r.Content {
		if c.Type != "text" {
			others = append(others, strings.TrimSpace("content of type "+c.Type+" "+c.MimeType))
		}
	}
	if text = result.Text(); text == "" {
		text = string(result.Structured())
	}
	return text, others
}

// owning lets the extensions start that can have a tool of this registered name:
// all of them when the name was cut, which hides the id.
func (a *app) owning(name string) func(id string) bool {
	return func(id string) bool { return tools.MayOwn(id, name) }
}
