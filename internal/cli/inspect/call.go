package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/cli/toolcall"
	"github.com/exthost/exthost/internal/proc/sandbox/refusal"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Call returns exthost call, which calls one tool.
func Call(c *console.Console) *cobra.Command {
	var data, node string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:         "call TOOL [key=value | key:=JSON ...]",
		Short:       "Call one tool and print its result",
		Annotations: console.AsksHost,
		Long: "Call a tool of the host that runs in this directory; if none runs, start the extension\n" +
			"that has the tool for this one call. Print the text of the result, or with -o json all of\n" +
			"it. Arguments are key=value pairs, typed by the tool's schema (key:=JSON gives the value in\n" +
			"JSON, a repeated key makes a list), laid over -d JSON, or -d - for stdin.",
		Example: "  exthost call ext_notes_add text='buy milk' tags=home tags=food\n" +
			"  exthost call ext_notes_search limit=5 -o json\n" +
			"  echo '{\"text\": \"buy milk\"}' | exthost call ext_notes_add -d -",
		Args:              console.AtLeastOne("exthost tools list", "exthost call needs the name of a tool"),
		ValidArgsFunction: hosts.CompleteCall(c),
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
			err := call(ctx, c, &request{tool: args[0], pairs: args[1:], node: node}, data)
			if timeout > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
				err = &console.Error{
					Code: console.ExitCanceled,
					Text: fmt.Sprintf("%s: no answer within %s, its start included; it may have acted", args[0],
						timeout),
					Hint:  "a longer --timeout",
					Cause: err,
				}
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&data, "data", "d", "", "arguments as one `JSON` object; - reads stdin")
	cmd.Flags().StringVar(&node, "node", "",
		"have this `NODE` of the cluster take the call (default: any that has the tool)")
	cmd.Flags().DurationVar(&timeout, "timeout", 0,
		"give up after this `LONG`, start included (default: the extension's own timeouts)")
	return cmd
}

// request is a call as stated on the command line.
type request struct {
	tool  string
	pairs []string        // key=value
	node  string          // the node that is to run the call; "": any
	given json.RawMessage // the object of -d, in which the pairs are set

	extension string           // owner of the tool; "": not known yet
	running   bool             // the running host makes the call
	owner     status.Extension // of the tool; zero before [request.findOwner]
	progress  atomic.Pointer[protocol.Progress]
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
		result, err = q.toRunning(ctx, c, r)
	}
	recorded := true // whether exthost calls can explain decisions about the call
	if errors.Is(err, errNotThere) {
		if broken != nil {
			return broken
		}
		if q.node != "" {
			text := fmt.Sprintf("no host runs here that is in a cluster and has tool %q", q.tool)
			if r != nil {
				text = fmt.Sprintf("the host that runs here knows no tool %q of node %s", q.tool, q.node)
			}
			return &console.Error{
				Code: console.ExitNotFound,
				Text: text,
				Hint: "exthost tools list has the tools, and the nodes that have them; exthost cluster nodes has the " +
					"nodes",
			}
		}
		recorded = cfg.Audit.Path != ""
		result, err = q.alone(ctx, c, cfg)
	}
	if err == nil {
		return q.printResult(c, result)
	}
	if recorded {
		err = explained(err)
	}
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		return err
	}
	hint := q.afterError(e)
	if hint == "" {
		return err
	}
	return &console.Error{
		Code:  console.ExitCode(err),
		Text:  strings.Join(console.DescribeKind(e), "\n"),
		Hint:  hint,
		Cause: e,
	}
}

// afterError returns the most helpful command after a call has failed; "" for that of the error.
func (q *request) afterError(e *protocol.Error) string {
	refused := ""
	if console.KindCode(e.Kind) == console.ExitExtension {
		refused = status.AfterRefusal(q.owner.Secrets, e.Message+"\n"+protocol.LastWords(e))
	}
	switch {
	case refused != "":
		return refused
	case e.Kind == protocol.ExtensionError && e.Evidence == nil:
		return q.evidence(e.Code == protocol.InvalidArguments.Code(), e.Message)
	case e.Kind == protocol.CallTimeout && !q.running: // nothing is left to restart
		return q.evidence(false, "") + ", if it hangs; raise call_timeout under [runtime] if it is only slow"
	}
	return ""
}

// evidence returns the most helpful command after the tool has failed, and said why. badArguments means that the tool
// itself refused its arguments, although they match its schema.
func (q *request) evidence(badArguments bool, said string) string {
	switch {
	case q.owner.Sandbox != nil && refusal.Find(said) != "":
		proxy := strings.Contains(q.owner.Sandbox.Net, ":")
		return refusal.Next(console.NearbyPath(filepath.Dir(q.owner.Path)), proxy, refusal.Find(said))
	case badArguments:
		return "exthost tools schema " + q.tool
	case q.running:
		return cmp.Or(status.AfterRefusal(q.owner.Secrets, said), "exthost logs "+q.extension)
	}
	return "exthost call " + q.tool + " … --log-level debug, which shows the stderr of " + q.extension
}

// explained adds the command that explains the policy decision in an error, if there is one.
func explained(err error) error {
	var data struct {
		Decision string `json:"decision_id"`
		Node     string
	}
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok || json.Unmarshal(e.Data, &data) != nil || data.Decision == "" {
		return err
	}
	hint := "exthost calls " + data.Decision
	if data.Node != "" { // the trace of the decision is kept at that node
		hint += ", at node " + data.Node
	}
	return &console.Error{
		Code:  console.ExitCode(err),
		Text:  strings.Join(console.DescribeKind(e), "\n"),
		Hint:  hint,
		Cause: e,
	}
}

// errNotThere means that no running host has the extension of a call: there is no host, or the extension was added
// after the host's start.
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
	q.extension = entry.Extension
	q.findOwner(h.Status())
	arguments, err := q.arguments(entry.InputSchema)
	if err != nil {
		return nil, err
	}
	defer c.Progress(func() string { return q.awaits(nil) })()
	ctx, refuse := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer refuse(nil)
	watching.Go(func() {
		for e := range h.Admin().Events(ctx, status.EventApprovals) {
			for _, a := range *e.Approvals {
				refuse(&console.Error{
					Code: console.ExitDenied,
					Text: a.Tool + " needs the approval of a person, which only a running host can ask for",
					Hint: "exthost serve, and then the same call",
				})
			}
		}
	})
	result, err := h.CallWith(ctx, q.tool, arguments, exthost.CallOptions{
		Progress: func(p protocol.Progress) { q.progress.Store(&p) },
	})
	refused, ok := errors.AsType[*console.Error](context.Cause(ctx))
	fault, failed := errors.AsType[*protocol.Error](err)
	if ok && failed && fault.Outcome == "" { // else the call may have had an effect
		return nil, refused
	}
	return result, err
}

// awaits describes what the call waits for: a person's answer to an approval request, or the extension, with the
// progress that it has reported.
func (q *request) awaits(requests []exthost.ApprovalRequest) string {
	for _, a := range requests {
		if (a.Tool == q.tool || a.Desk != "" && a.Desk+"."+a.Extension == q.extension) && a.Waiting {
			return "waiting for an approval: exthost calls approve " + a.ID + ", or deny"
		}
	}
	p := q.progress.Load()
	if p == nil {
		return "waiting for " + q.extension
	}
	how := fmt.Sprintf("%.6g", p.Done)
	if p.Total > 0 {
		how = fmt.Sprintf("%.0f %%", 100*min(max(p.Done/p.Total, 0), 1))
	}
	if p.Message != "" {
		how += ", " + p.Message
	}
	return q.extension + ": " + how
}

// toRunning lets the running host make the call.
func (q *request) toRunning(ctx context.Context, c *console.Console, r *hosts.Running) (protocol.ToolResult, error) {
	t, err := runningTool(ctx, r, q.tool)
	if err != nil && q.node != "" { // q.tool may be the tool's name at that node
		if name, ok := ownTool(ctx, r, q.node, q.tool); ok {
			q.tool = name
			t, err = runningTool(ctx, r, q.tool)
		}
	}
	if err != nil {
		return nil, err
	}
	q.extension, q.running = t.Extension, true
	arguments, err := q.arguments(rawjson.Get(t.Descriptor, "inputSchema"))
	if err != nil {
		return nil, err
	}
	defer c.Progress(func() string {
		var list struct{ Approvals []exthost.ApprovalRequest }
		_ = r.Get(ctx, "/api/v1/approvals", &list) // if this fails, the line names the extension
		return q.awaits(list.Approvals)
	})()
	path := "/api/v1/tools/" + url.PathEscape(q.tool) + "/call?progress=true"
	if q.node != "" {
		path += "&node=" + url.QueryEscape(q.node)
	}
	result, err := r.Call(ctx, path, arguments, func(p protocol.Progress) { q.progress.Store(&p) })
	if err != nil || protocol.ToolResult(result).IsError() {
		if s, err := r.Status(ctx); err == nil {
			q.findOwner(s)
		}
	}
	return protocol.ToolResult(result), err
}

// findOwner sets q.owner.
func (q *request) findOwner(s status.Status) {
	for _, x := range s.Extensions {
		if x.ID == q.extension {
			q.owner = x
		}
	}
}

// printResult prints the text of a result, or all of it with -o json or yaml. A result that the tool marks as an error
// is an error of the command too.
func (q *request) printResult(c *console.Console, result protocol.ToolResult) error {
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
		return &console.Error{
			Code: console.ExitExtension,
			Text: q.tool + " reports an error: " + text,
			Hint: q.evidence(false, text),
		}
	}
	for _, what := range others {
		c.Warn("%s is not shown here, -o json has it", console.Safe(what))
	}
	if console.IsTerminal(c.Out) {
		text = console.SafeText(text) // without a terminal, print the exact bytes
	}
	if text == "" && len(others) > 0 {
		return nil
	}
	_, err := fmt.Fprintln(c.Out, text)
	return err
}
