package secret

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/cli/trust"
	"github.com/exthost/exthost/internal/host/given"
	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/supply/consent"
)

// grantCommand returns exthost secret grant.
func grantCommand(c *console.Console) *cobra.Command {
	var revoke bool
	cmd := &cobra.Command{
		Use:   "grant ID NAME...",
		Short: "Give an extension secrets that its manifest asks for",
		Long: "Give an extension variables of the host that look like secrets and that requires.env of its\n" +
			"manifest names, and stored secrets that its manifest, or a configuration of this directory,\n" +
			"refers to as secret://NAME. exthost trust grants those that it shows; other variables need no\n" +
			"grant. With --revoke the extension loses them, from its next start on; without a NAME all of them.",
		Example: "  exthost secret grant github GITHUB_TOKEN\n  exthost secret grant github secret://github\n  " +
			"exthost secret grant github --revoke",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 1 && !revoke {
				return console.Usagef("exthost secret grant --help", "an ID and the NAME of a variable are needed")
			}
			return nil
		},
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			return grant(cmd.Context(), c, args[0], args[1:], revoke)
		},
	}
	cmd.Flags().BoolVar(&revoke, "revoke", false, "withdraw secrets in place of granting them")
	return cmd
}

func grant(ctx context.Context, c *console.Console, id string, names []string, revoke bool) error {
	cfg, _, err := hosts.Load(c)
	if err != nil {
		return err
	}
	found, err := trust.Discover(ctx, cfg)
	if err != nil {
		return err
	}
	n := slices.IndexFunc(found, func(c discovery.Candidate) bool { return c.ID == id })
	if n < 0 {
		return &console.Error{Code: console.ExitNotFound, Text: "there is no extension " + id, Hint: "exthost status"}
	}
	asked := slices.Clone(found[n].Manifest.Requires.Env)
	for _, name := range given.Asked(cfg, &found[n]) {
		asked = append(asked, secrets.Scheme+name)
	}
	for _, name := range names {
		if !slices.Contains(asked, name) && !revoke {
			return console.Usagef("exthost status "+id,
				"%s does not ask for %s; extensions.entries.%s gives it nonetheless: env_pass a variable, env a "+
					"stored secret", id, name, id)
		}
	}
	k, err := hosts.Consent(config.Default())
	if err != nil {
		return err
	}
	dir, err := filepath.EvalSymlinks(found[n].Dir)
	if err != nil {
		return err
	}
	said := "granted to " + id + ": " + strings.Join(names, ", ")
	if revoke {
		said = "withdrawn from " + id
	}
	err = k.Store.Change(dir, consent.Extension, func(r *consent.Record) error {
		switch {
		case !revoke:
			r.Grant(id, names...)
		case !r.Withdraw(id, names...):
			return &console.Error{
				Code: console.ExitNotFound,
				Text: id + " has no such grant",
				Hint: "exthost trust --list",
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return hosts.Apply(ctx, c, cfg, said)
}
