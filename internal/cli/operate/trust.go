package operate

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/cli/trust"
	"github.com/exthost/exthost/internal/supply/consent"
)

// Trust returns exthost trust.
func Trust(c *console.Console) *cobra.Command {
	var list, revoke, all, yes, lock bool
	cmd := &cobra.Command{
		Use:   "trust [ID...]",
		Short: "Show what this directory would run, and agree to it",
		Long: "Show which extensions, and what of the configuration of this directory, have not been agreed\n" +
			"to as they are, with what they run and ask for, and agree to all of it or to what is named. The\n" +
			"configuration is named \".\". The answer is kept for this user, and holds until a file of code\n" +
			"changes. Nothing of a directory runs before that; what the program brings itself, what --config,\n" +
			"--extensions and the user's own files name, and what exthost init and exthost dev make needs no\n" +
			"answer. Without a terminal, --yes answers, and the command prints what it accepted. A plugin.toml\n" +
			"that runs a package of exthost.lock, and that you have changed, is written there as well.",
		Example: "  exthost trust\n  exthost trust notes --yes\n  exthost trust --list\n  exthost trust --lock",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case list:
				return printRecords(c)
			case revoke:
				return revokeNamed(cmd.Context(), c, args, all)
			case yes && len(args) == 0 && !all:
				return console.Usagef("exthost trust --all --yes", "--yes needs an ID or --all")
			}
			return agree(cmd.Context(), c, args, yes, lock)
		},
		ValidArgsFunction: hosts.CompleteExtension(c),
	}
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "everything that waits for an answer")
	f.BoolVarP(&yes, "yes", "y", false, "agree without a question, and print to what")
	f.BoolVar(&lock, "lock", false,
		"also write exthost.lock: what is trusted here, for EXTHOST_TRUST=lock on other machines")
	f.BoolVar(&list, "list", false, "list what was agreed to, in all directories")
	f.BoolVar(&revoke, "revoke", false, "withdraw the agreement to what is named, or with --all to everything here")
	return cmd
}

func agree(ctx context.Context, c *console.Console, names []string, yes, lock bool) error {
	cfg, origins, err := hosts.Load(c)
	if err != nil {
		return err
	}
	switch {
	case lock:
		cfg.Extensions.Trust = config.TrustAsk
	case cfg.Extensions.Trust == config.TrustOff:
		return console.Usagef("exthost trust --lock, for what exthost.lock states",
			"extensions.trust is off, so that everything in this directory runs")
	case cfg.Extensions.Trust == config.TrustLock:
		return console.Usagef("exthost trust --lock", "extensions.trust is lock, so that exthost.lock decides")
	}
	p, err := trust.Find(ctx, c, cfg, origins)
	if err != nil {
		return err
	}
	if len(p.Items) == 0 && len(names) == 0 {
		if lock {
			return writeLock(ctx, c, cfg)
		}
		fmt.Fprintln(c.Err, "nothing waits to be trusted")
		return nil
	}
	items, err := p.Select(names)
	if err != nil {
		return err
	}
	refused := &console.Error{Code: console.ExitDenied, Text: "not trusted, and not run"}
	unasked := &console.Error{
		Code: console.ExitDenied,
		Text: "this needs an answer, and there is no terminal",
		Hint: "exthost trust " + cmp.Or(strings.Join(names, " "), "--all") + " --yes",
	}
	if err := trust.Agree(ctx, c, items, yes, refused, unasked); err != nil {
		return err
	}
	if err := p.Accept(items); err != nil {
		return err
	}
	if err := hosts.Apply(ctx, c, cfg, "trusted: "+trust.Names(items)); err != nil || !lock {
		return err
	}
	return writeLock(ctx, c, cfg)
}

// writeLock writes what the user trusts into the lock file of the directory.
func writeLock(ctx context.Context, c *console.Console, cfg *config.Config) error {
	k, err := hosts.Consent(cfg)
	if err != nil {
		return err
	}
	found, err := trust.Discover(ctx, cfg)
	if err != nil {
		return err
	}
	ids, err := hosts.Lock(k, cfg, found)
	if err != nil {
		return err
	}
	c.Tell(fmt.Sprintf("exthost.lock holds %s and the configuration, where there is one; commit it, and run "+
		"EXTHOST_TRUST=lock exthost serve elsewhere", console.Plural(len(ids), "extension")))
	return nil
}

// printRecords lists what the user trusts.
func printRecords(c *console.Console) error {
	k, err := hosts.Consent(config.Default())
	if err != nil {
		return err
	}
	records, broken := k.Store.All()
	rows := [][]string{{"FOLDER", "WHAT", "SINCE", "FILES", "SECRETS"}}
	for _, r := range records {
		since := "-"
		if r.Revoked {
			since = "revoked"
		}
		if r.Trusted != nil {
			since = r.Trusted.Local().Format("2006-01-02 15:04")
		}
		var secrets []string
		for id, names := range r.Secrets {
			secrets = append(secrets, id+": "+strings.Join(names, " "))
		}
		rows = append(rows, []string{
			r.Dir,
			string(r.Kind),
			since,
			fmt.Sprint(len(r.Files)),
			strings.Join(secrets, "; "),
		})
	}
	if err := c.Print(console.Document{Kind: "trust", Value: console.OrEmpty(records), Rows: rows}); err != nil {
		return err
	}
	return broken
}

// revokeNamed revokes the trust in extensions of the working directory.
func revokeNamed(ctx context.Context, c *console.Console, names []string, all bool) error {
	if len(names) == 0 && !all {
		return console.Usagef("exthost trust --list", "--revoke needs an ID, %q for the configuration, or --all",
			hosts.ThisDirectory)
	}
	cfg, _, err := hosts.Load(c)
	if err != nil {
		return err
	}
	k, err := hosts.Consent(config.Default())
	if err != nil {
		return err
	}
	dirs, err := foldersOf(ctx, cfg, names, all)
	if err != nil {
		return err
	}
	for _, of := range dirs {
		err := k.Store.Change(of.dir, of.kind, func(r *consent.Record) error {
			r.Revoke()
			return nil
		})
		if err != nil {
			return err
		}
	}
	return hosts.Apply(ctx, c, cfg, "revoked: "+console.Plural(len(dirs), "agreement"))
}

// folder is the subject of a record of trust.
type folder struct {
	dir  string
	kind consent.Kind
}

func foldersOf(ctx context.Context, cfg *config.Config, names []string, all bool) (list []folder, err error) {
	found, err := trust.Discover(ctx, cfg)
	if err != nil {
		return nil, err
	}
	real := func(dir string, kind consent.Kind) {
		if dir, err := filepath.EvalSymlinks(dir); err == nil && !slices.Contains(list, folder{dir, kind}) {
			list = append(list, folder{dir, kind})
		}
	}
	if all {
		real(cfg.Project.Dir, consent.Configuration)
		for _, c := range found {
			real(c.Dir, consent.Extension)
		}
		return list, nil
	}
	for _, name := range names {
		before := len(list)
		if name == hosts.ThisDirectory {
			real(cfg.Project.Dir, consent.Configuration)
		}
		for _, c := range found {
			if c.ID == name {
				real(c.Dir, consent.Extension)
			}
		}
		if len(list) == before {
			return nil, &console.Error{
				Code: console.ExitNotFound,
				Text: "there is no extension " + name,
				Hint: "exthost status",
			}
		}
	}
	return list, nil
}
