package secret

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/host/given"
)

func list(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List secrets by name, and what refers to them",
		Args:  console.NoArgs,
		Long: "List the names of the secrets that are stored, and of those that the configuration and the\n" +
			"manifests refer to, with the keys that do. A keyring and a program tell no names; STORED is\n" +
			"unknown there. Values are never shown.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, err := hosts.Load(c)
			if err != nil {
				return err
			}
			all, err := find(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			names, rows := []string{}, [][]string{{"NAME", "STORED", "REFERRED TO BY"}}
			for _, s := range all {
				names = append(names, s.Name)
				rows = append(rows, []string{s.Name, s.Stored, strings.Join(s.Uses, ", ")})
			}
			rows = append(rows, []string{console.Plural(len(all), "secret") + " of " + cfg.Secrets.Provider})
			return c.Print(console.Document{Kind: "secrets", Value: console.OrEmpty(all), Names: names, Rows: rows})
		},
	}
}

// known describes a secret without its value.
type known struct {
	Name   string   `json:"name"`
	Stored string   `json:"stored"` // yes, no or unknown
	Uses   []string `json:"uses"`   // keys that refer to it; a key of a manifest follows the extension's id
}

// find returns the secrets that are stored or referred to, sorted by name.
func find(ctx context.Context, cfg *config.Config) ([]known, error) {
	store := hosts.Secrets(cfg)
	uses := make(map[string][]string)
	tells, lists := store.(interface{ Names() ([]string, error) })
	if lists {
		names, err := tells.Names()
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			uses[name] = []string{}
		}
	}
	for _, use := range cfg.SecretUses {
		uses[use.Name] = append(uses[use.Name], use.Key)
	}
	if cfg.Extensions.Enabled {
		found, err := discovery.Discover(ctx, cfg.Extensions.Discovery())
		if err != nil {
			return nil, err
		}
		for _, x := range found.Candidates {
			// validate reports invalid references
			names, _ := given.OfTransport(x.ID+": transport.", &x.Manifest.Transport, nil).Names()
			for name, key := range names {
				uses[name] = append(uses[name], key)
			}
		}
	}
	var all []known
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		all = append(all, known{
			name,
			isStored(store, cfg.Secrets.Provider, name),
			slices.Compact(slices.Sorted(slices.Values(uses[name]))),
		})
	}
	return all, nil
}

// isStored returns whether a secret is stored: yes, no, or unknown if only the user or another program can tell.
func isStored(store given.Store, provider, name string) string {
	switch {
	case store.Check(name) != nil:
		return "no"
	case provider == config.SecretsKeyring || provider == config.SecretsCommand:
		return "unknown"
	}
	return "yes"
}
