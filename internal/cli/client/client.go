// Package client implements exthost client, which manages the named clients of a host and their tokens.
package client

import (
	"context"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/secret/clienttoken"
)

// Command returns exthost client.
func Command(c *console.Console) *cobra.Command {
	return console.Group("client", "Name the clients of a host and give them tokens", add(c), list(c), set(c),
		rotate(c), remove(c))
}

func add(c *console.Console) *cobra.Command {
	var v view
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a client, and print its token in settings to paste",
		Args:  console.One("the NAME of a client"),
		Long: "Add a client to the user's configuration, or to the file of --config, and print the settings\n" +
			"to paste into it, with its token. The token is shown this once: the file has its hash alone.\n" +
			"Policies, budgets, the audit log and exthost status know the client by the name. Hosts that\n" +
			"run let it in at once. As soon as there is a client, every client over HTTP needs a token;\n" +
			"those on stdio need none: exthost serve --stdio --as NAME.",
		Example: "  exthost client add laptop\n  exthost client add ci --toolset review --mode search -o json\n" +
			"  exthost client add prometheus --scope metrics",
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := load(c)
			if err != nil {
				return err
			}
			token, now := clienttoken.New(), time.Now().UTC().Format(time.RFC3339)
			fresh := v.of(config.Client{TokenHash: clienttoken.Hash(token), Since: now})
			g := given{Name: args[0], Token: token, verb: "added"}
			if len(cfg.Server.Clients) == 0 && !cfg.Server.Auth.Stated() {
				g.note = "It is the first: from now on, clients over HTTP that show no token are refused"
			}
			g.scope = fresh.Scope
			return g.apply(cmd.Context(), c, cfg, config.ClientEdit{Name: args[0], New: &fresh})
		},
	}
	v.addFlags(cmd)
	return cmd
}

func rotate(c *console.Console) *cobra.Command {
	var keep time.Duration
	cmd := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Give a client a new token",
		Args:  console.One("the NAME of a client"),
		Long: "Replace the token of a client, and print the settings with the new one. The old token ends at\n" +
			"once, with the sessions that it opened; with --keep it is accepted beside the new one for a\n" +
			"time, so that the client's settings can be changed while the client works. Clients on stdio\n" +
			"need no token and notice nothing.",
		Example: "  exthost client rotate laptop\n  exthost client rotate ci --keep 1h",
		RunE: func(cmd *cobra.Command, args []string) error {
			if keep < 0 {
				return console.Usagef("exthost client rotate "+args[0]+" --keep 1h",
					"--keep is a time from now on, not %v", keep)
			}
			cfg, err := load(c)
			if err != nil {
				return err
			}
			token, now := clienttoken.New(), time.Now().UTC()
			g := given{Name: args[0], Token: token, verb: "given a new token", scope: cfg.Server.Clients[args[0]].Scope}
			change := func(was config.Client) config.Client {
				next := was
				next.TokenHash, next.Since = clienttoken.Hash(token), now.Format(time.RFC3339)
				next.OldTokenHash, next.OldUntil = "", ""
				if keep > 0 && was.TokenHash != "" {
					next.OldTokenHash, next.OldUntil = was.TokenHash, now.Add(keep).Format(time.RFC3339)
					g.OldUntil = next.OldUntil
				}
				return next
			}
			return g.apply(cmd.Context(), c, cfg, config.ClientEdit{Name: args[0], Replace: change})
		},
	}
	cmd.Flags().DurationVar(&keep, "keep", 0,
		"accept the old token for this `TIME` beside the new one, such as 1h (default: not at all)")
	return cmd
}

func remove(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a client",
		Args:  console.One("the NAME of a client"),
		Long: "Remove a client from the configuration. Hosts that run refuse it at once and end its sessions\n" +
			"and calls; other clients notice nothing.",
		Example: "  exthost client remove laptop",
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := load(c)
			if err != nil {
				return err
			}
			if _, err := change(c, cfg, config.ClientEdit{Name: args[0], Remove: true}); err != nil {
				return err
			}
			text := args[0] + " is removed"
			if len(cfg.Server.Clients) == 1 && !cfg.Server.Auth.Stated() {
				text += ". It was the last client: hosts that run still require a token; from its next start on, " +
					"exthost serve " + withoutToken(cfg.Server)
			}
			c.Tell(console.Safe(text))
			return tell(cmd.Context(), c)
		},
	}
}

// withoutToken describes how exthost serve treats clients over HTTP while no client has a token.
func withoutToken(s config.Server) string {
	host, _, err := net.SplitHostPort(s.Listen)
	ip := net.ParseIP(host)
	switch {
	case err == nil && host != "localhost" && !(ip != nil && ip.IsLoopback()):
		return "does not start, as other machines can reach " + s.Listen
	case s.Auth.Loopback == config.LoopbackAny:
		return "answers every process of this machine without one, as server.auth.loopback says"
	}
	return "answers this user's processes without one"
}

// load reads the configuration. It refuses -o name before the command can change anything.
func load(c *console.Console) (*config.Config, error) {
	if c.Output == "name" {
		return nil, console.Usagef("", "there is no -o name of a client with its token; there is table, json and yaml")
	}
	cfg, _, err := hosts.Load(c)
	return cfg, err
}

// given is a client with its new token, as printed.
type given struct {
	Name     string `json:"name"`
	Token    string `json:"token"`
	URL      string `json:"url"`                 // of the host's MCP endpoint, or of its metrics
	OldUntil string `json:"old_until,omitempty"` // when the previous token expires; "": immediately
	config.Edited

	verb, note, scope string
}

// apply changes the configuration, prints the token with the settings of a client, and makes the running hosts reload.
func (g *given) apply(ctx context.Context, c *console.Console, cfg *config.Config, e config.ClientEdit) (err error) {
	if g.Edited, err = change(c, cfg, e); err != nil {
		return g.byHand(ctx, c, cfg, err)
	}
	g.URL = g.address(ctx, cfg)
	text := g.Name + " is " + g.verb + ": " + console.NearbyPath(g.String())
	if g.Created {
		text += ", a new file"
	}
	if g.OldUntil != "" {
		text += "; its old token holds until " + g.OldUntil
	}
	c.Tell(console.Safe(text))
	if g.note != "" {
		c.Tell(g.note)
	}
	told := tell(ctx, c)
	if err := c.Print(console.Document{Kind: "client", Value: g, Text: g.settings()}); err != nil {
		return &console.Error{
			Code: console.ExitFailed,
			Text: "nobody has seen the token: " + err.Error(),
			Hint: "exthost client rotate " + g.Name + " gives it another",
		}
	}
	return told
}
