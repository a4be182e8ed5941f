package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

func (a *app) callCommand() *cobra.Command {
	var data string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "call TOOL [key=value | key:=JSON ...]",
		Short: "Call one tool and print its result",
		Long: "Start the extension that has the tool, call it once and print the text of its result, or\n" +
			"with -o json all of it. Arguments are key=value pairs, typed by the tool's schema (key:=JSON\n" +
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
	h, err := a.open(ctx, a.owning(name))
	if err != nil {
		return err
	}
	defer h.Close()
	entry, ok := h.Tools().Lookup(name)
	if !ok {
		return unknownTool(h, name)
	}
	arguments, err := withPairs(given, pairs, entry)
	if err != nil {
		return err
	}
	result, err := h.Call(ctx, name, arguments)
	if err != nil {
		return err
	}
	return a.printResult(name, result)
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

// unknownTool says why the extension that should have the tool does not offer it,
// or which tool was meant.
func unknownTool(h *exthost.Host, name string) error {
	s := h.Status()
	for _, x := range s.Extensions {
		if tools.MayOwn(x.ID, name) && x.Reason != "" {
			return unavailable(name, x, s.Diagnostics)
		}
	}
	for _, d := range s.Diagnostics {
		if d.Extension != "" && d.Level == protocol.LevelError && tools.MayOwn(d.Extension, name) {
			return brokenManifest(s, d.Extension)
		}
	}
	text := fmt.Sprintf("there is no tool %q", name)
	var names, ids []string
	for _, e := range h.Tools().Entries() {
		names = append(names, e.Name)
	}
	for _, x := range s.Extensions {
		ids = append(ids, x.ID)
	}
	if near := nearest.Of(name, names); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	} else if id := nearestOwner(name, ids); id != "" {
		text += fmt.Sprintf(", did you mean one of extension %q?", id)
	}
	return &exitError{code: exitNotFound, text: text, hint: "exthost tools list"}
}

// nearestOwner is the extension whose id the beginning of a tool's name resembles.
func nearestOwner(name string, ids []string) string {
	words := strings.Split(strings.TrimPrefix(name, "ext_"), "_")
	for n := len(words); n > 0; n-- {
		if near := nearest.Of(strings.Join(words[:n], "_"), ids); near != "" {
			return near
		}
	}
	return ""
}

// unavailable is why an extension offers no tools, with the exit code of that.
func unavailable(name string, x exthost.ExtensionStatus, diags []protocol.Diagnostic) error {
	e := &exitError{code: exitExtension, hint: "exthost info " + x.ID}
	switch x.State {
	case exthost.StateSkipped:
		e.code = exitGated
		for _, d := range diags {
			if d.Extension == x.ID && d.Level == protocol.LevelError {
				e.code = kindCode(protocol.Kind(d.Code))
			}
			if d.Extension == x.ID && d.Hint != "" && d.Level != protocol.LevelInfo {
				e.hint = d.Hint
			}
		}
	case exthost.StateDisabled:
		e.code, e.hint = exitDenied, "exthost config show --origin says where"
	}
	lines := append([]string{fmt.Sprintf("no tool %q, because extension %s is %s: %s", name, x.ID, x.State, x.Reason)}, lastWords(evidence(x))...)
	e.text = strings.Join(lines, "\n")
	return e
}
