package govern

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
)

// Policy looks at policies and their decisions.
func Policy(c *console.Console) *cobra.Command {
	return console.Group("policy", "Look at the policies, explain what they decided, try a call",
		policyList(c), policyExplain(c), policyTest(c), policyPins(c))
}

func policyList(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the policies in the order they are asked, with what they decided",
		Long: "List the policies in the order they are asked. Where an exthost runs for this directory\n" +
			"with what they have decided; of one in shadow mode how often it would have acted.",
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := policies(cmd.Context(), c)
			if err != nil {
				return err
			}
			names := []string{}
			for _, p := range list {
				names = append(names, p.Name)
			}
			return c.Print(console.Document{Kind: "policies", Value: console.OrEmpty(list), Names: names, Rows: hosts.PolicyRows(list)})
		},
	}
}

// policies are those of the running host or, without one, of the configuration.
func policies(ctx context.Context, c *console.Console) ([]exthost.PolicyStatus, error) {
	r, cfg, broken := hosts.Reach(ctx, c)
	if r != nil {
		s, err := r.Status(ctx)
		return s.Policies, err
	}
	if broken != nil {
		return nil, broken
	}
	h, err := hosts.Open(ctx, c, cfg, exthost.Options{Start: hosts.None, Inspect: true})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return h.Status().Policies, nil
}
