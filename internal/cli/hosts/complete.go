package hosts

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/toolcall"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// known is the source of completions: the running host or, if none runs, a host that starts nothing.
type known struct {
	running *Running
	opened  *exthost.Host
}

// peek opens the source of completions and prints nothing on stderr. If ok, the caller must call close.
func peek(ctx context.Context, c *console.Console) (k known, close func(), ok bool) {
	c.Err = io.Discard
	r, cfg, err := Reach(ctx, c)
	if r != nil {
		return known{running: r}, func() {}, true
	}
	if err != nil {
		return k, nil, false
	}
	h, err := Look(ctx, c, cfg)
	if err != nil {
		return k, nil, false
	}
	return known{opened: h}, func() { h.Close() }, true
}

func (k known) status(ctx context.Context) (s status.Status) {
	if k.running == nil {
		return k.opened.Status()
	}
	s, _ = k.running.Status(ctx) // without an answer there are no completions
	return s
}

func (k known) tools(ctx context.Context) []httpserver.Tool {
	if k.running == nil {
		return httpserver.NewToolList(k.opened.Tools().Entries(), nil).Tools
	}
	var list httpserver.ToolList
	_ = k.running.Get(ctx, "/api/v1/tools", &list) // without an answer there are no completions
	return list.Tools
}

func (k known) inputSchema(ctx context.Context, tool string) json.RawMessage {
	if k.running == nil {
		if e, ok := k.opened.Tools().Lookup(tool); ok {
			return e.InputSchema
		}
		return nil
	}
	var t httpserver.Tool
	_ = k.running.Get(ctx, "/api/v1/tools/"+url.PathEscape(tool), &t) // without an answer there are no completions
	return rawjson.Get(t.Descriptor, "inputSchema")
}

// CompleteExtension completes the id of an extension.
func CompleteExtension(c *console.Console) cobra.CompletionFunc {
	return completeOne(c, func(ctx context.Context, k known) (ids []string, _ cobra.ShellCompDirective) {
		for _, x := range k.status(ctx).Extensions {
			ids = append(ids, cobra.CompletionWithDesc(x.ID, console.Safe(x.Description)))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	})
}

// CompleteTool completes the registered name of a tool.
func CompleteTool(c *console.Console) cobra.CompletionFunc { return completeOne(c, toolNames) }

// CompleteCall completes the name of a tool, then its arguments and their values.
func CompleteCall(c *console.Console) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return CompleteTool(c)(cmd, args, word)
		}
		k, end, ok := peek(cmd.Context(), c)
		if !ok {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer end()
		directive := cobra.ShellCompDirectiveNoFileComp
		if !strings.Contains(word, "=") {
			directive |= cobra.ShellCompDirectiveNoSpace // a value follows
		}
		return toolcall.Complete(toolcall.Params(k.inputSchema(cmd.Context(), args[0])), word, args[1:]), directive
	}
}

// completeOne completes the first argument.
func completeOne(c *console.Console, words func(ctx context.Context, k known) ([]string, cobra.ShellCompDirective),
) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		k, end, ok := peek(cmd.Context(), c)
		if !ok {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer end()
		return words(cmd.Context(), k)
	}
}

// toolNames returns the tools that are known without starting anything and, for each other extension, the prefix of its
// tools' names.
func toolNames(ctx context.Context, k known) (names []string, directive cobra.ShellCompDirective) {
	directive = cobra.ShellCompDirectiveNoFileComp
	for _, t := range k.tools(ctx) {
		names = append(names, cobra.CompletionWithDesc(t.Name, console.Safe(Description(t.Description, t.Extension))))
	}
	for _, x := range k.status(ctx).Extensions {
		if len(x.Tools) == 0 && x.Reason == "" {
			names = append(names, tools.Prefix(x.ID))
			directive |= cobra.ShellCompDirectiveNoSpace
		}
	}
	return names, directive
}
