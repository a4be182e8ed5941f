package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/rawjson"
)

func completeFlag(cmd *cobra.Command, name string, values []string) {
	fixed := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(name, fixed); err != nil {
		panic(err) // there is no such flag
	}
}

// peek opens a host that starts nothing, silently, for completions.
func (a *app) peek(cmd *cobra.Command) *exthost.Host {
	a.err = io.Discard
	h, err := a.open(cmd.Context(), none)
	if err != nil {
		return nil
	}
	return h
}

func (a *app) completeExtension(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	h := a.peek(cmd)
	if h == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer h.Close()
	var ids []string
	for _, x := range h.Status().Extensions {
		ids = append(ids, cobra.CompletionWithDesc(x.ID, safe(x.Description)))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// completeTool offers the tools that are known without starting anything, and of
// the other extensions what their tools' names begin with.
func (a *app) completeTool(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	h := a.peek(cmd)
	if h == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer h.Close()
	return toolNames(h)
}

func toolNames(h *exthost.Host) (names []string, directive cobra.ShellCompDirective) {
	directive = cobra.ShellCompDirectiveNoFileComp
	for _, e := range h.Tools().Entries() {
		names = append(names, cobra.CompletionWithDesc(e.Name, safe(ownDescription(e))))
	}
	for _, x := range h.Status().Extensions {
		if len(x.Tools) == 0 && x.Reason == "" {
			names = append(names, "ext_"+strings.ReplaceAll(x.ID, ".", "_")+"_")
			directive |= cobra.ShellCompDirectiveNoSpace
		}
	}
	return names, directive
}

// completeCall completes the tool, then the keys of its arguments.
func (a *app) completeCall(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	h := a.peek(cmd)
	if h == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer h.Close()
	if len(args) == 0 {
		return toolNames(h)
	}
	var keys []string
	if e, ok := h.Tools().Lookup(args[0]); ok {
		for key := range rawjson.Members(rawjson.Get(e.InputSchema, "properties")) {
			keys = append(keys, key+"=")
		}
	}
	return keys, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
