package hosts

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
)

// Peek opens a host that starts nothing and prints nothing, for completions; nil when
// that fails.
func Peek(ctx context.Context, c *console.Console) *exthost.Host {
	c.Err = io.Discard
	h, err := Inspect(ctx, c, None)
	if err != nil {
		return nil
	}
	return h
}

// CompleteExtension completes one id of an extension.
func CompleteExtension(c *console.Console) cobra.CompletionFunc {
	return completeOne(c, func(h *exthost.Host) (ids []string, _ cobra.ShellCompDirective) {
		for _, x := range h.Status().Extensions {
			ids = append(ids, cobra.CompletionWithDesc(x.ID, console.Safe(x.Description)))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	})
}

// CompleteTool completes one name of a tool.
func CompleteTool(c *console.Console) cobra.CompletionFunc { return completeOne(c, toolNames) }

// completeOne completes the first argument with words of a host.
func completeOne(c *console.Console, words func(h *exthost.Host) ([]string, cobra.ShellCompDirective)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		h := Peek(cmd.Context(), c)
		if h == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer h.Close()
		return words(h)
	}
}

// toolNames are the tools that are known without starting anything. Of each other
// extension they contain the beginning of its tools' names.
func toolNames(h *exthost.Host) (names []string, directive cobra.ShellCompDirective) {
	directive = cobra.ShellCompDirectiveNoFileComp
	for _, e := range h.Tools().Entries() {
		names = append(names, cobra.CompletionWithDesc(e.Name, console.Safe(Description(e.Description, e.Extension))))
	}
	for _, x := range h.Status().Extensions {
		if len(x.Tools) == 0 && x.Reason == "" {
			names = append(names, "ext_"+strings.ReplaceAll(x.ID, ".", "_")+"_")
			directive |= cobra.ShellCompDirectiveNoSpace
		}
	}
	return names, directive
}
