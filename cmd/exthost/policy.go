package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/status"
)

func (a *app) policyCommand() *cobra.Command {
	return a.group("policy", "Look at the policies, explain what they decided, try a call",
		a.policyListCommand(), a.policyExplainCommand(), a.policyTestCommand(), a.policyPinsCommand())
}

func (a *app) policyListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the policies in the order they are asked, with what they decided",
		Long: "List the policies in the order they are asked. Where an exthost runs for this directory\n" +
			"with what they have decided; of one in shadow mode how often it would have acted.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			policies, err := a.policies(cmd.Context())
			if err != nil {
				return err
			}
			names := []string{}
			for _, p := range policies {
				names = append(names, p.Name)
			}
			return a.print(document{Kind: "policies", Value: orEmpty(policies), Names: names, Rows: policyRows(policies)})
		},
	}
}

// policies are those of the running host, else those of the configuration.
func (a *app) policies(ctx context.Context) ([]status.Policy, error) {
	r, cfg, broken := a.reach(ctx)
	if r != nil {
		s, err := r.status(ctx)
		return s.Policies, err
	}
	if broken != nil {
		return nil, broken
	}
	h, err := a.openWith(ctx, cfg, exthost.Options{Start: none, Mode: exthost.Mode{Inspect: true}})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return h.Status().Policies, nil
}

// policyRows are a line for each policy.
func policyRows(policies []status.Policy) [][]string {
	rows := [][]string{{"POLICY", "CATEGORY", "IS", "MODE", "STATE", "ASKED", "DENIED", "ERRORS", "P50", "P95", "NOTE"}}
	for _, p := range policies {
		var asked, denied, failed, shadow int64
		p50, p95 := "-", "-"
		for _, c := range p.Calls {
			asked += c.Continue + c.Rejected + c.Errors
			denied, failed, shadow = denied+c.Rejected, failed+c.Errors, shadow+c.Shadow
			if c.Latency != nil && p50 == "-" { // the request flow comes first
				p50, p95 = span(c.Latency.P50), span(c.Latency.P95)
			}
		}
		is := cmp.Or(p.Builtin, string(p.Kind))
		rows = append(rows, []string{p.Name, string(p.Category), is, string(p.Mode), p.State, strconv.FormatInt(asked, 10),
			strconv.FormatInt(denied, 10), strconv.FormatInt(failed, 10), p50, p95, strings.Join(policyNotes(p, shadow), "; ")})
	}
	return rows
}

func policyNotes(p status.Policy, shadow int64) (notes []string) {
	if p.Reason != "" {
		notes = append(notes, p.Reason)
	}
	if p.Mode == governance.ModeShadow {
		notes = append(notes, fmt.Sprintf("would have acted %d times", shadow))
	}
	if !p.Required {
		notes = append(notes, "optional")
	}
	if len(p.Flows) == 1 {
		notes = append(notes, string(p.Flows[0])+" only")
	}
	return notes
}
