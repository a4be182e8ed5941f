package client

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

// known is a row of exthost client list.
type known struct {
	Name     string     `json:"name"`
	Token    bool       `json:"token"`               // it has a token, for HTTP
	Since    string     `json:"since,omitempty"`     // when its token was made; "": unknown
	OldUntil string     `json:"old_until,omitempty"` // when its previous token expires
	Stated   string     `json:"stated"`              // FILE:LINE where the configuration states it
	Sessions *int       `json:"sessions,omitempty"`  // in the hosts of this directory; nil: no host runs
	LastUsed *time.Time `json:"last_used,omitempty"` // nil: not since the hosts of this directory were started
	Toolset  string     `json:"toolset,omitempty"`   // of its own; "": server.toolset
	Mode     string     `json:"mode,omitempty"`      // of its own; "": tools.mode
	Scope    string     `json:"scope,omitempty"`     // all that its token opens; "": tools
	// the risks of the calls that its person may approve in it; none: operators answer
	Approves []protocol.Risk `json:"approves,omitempty"`
}

func list(c *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the clients, and who of them is connected",
		Args:  console.NoArgs,
		Long: "List the clients of the configuration: since when each has its token, and, if hosts run in this\n" +
			"directory, how many sessions it has there and when it was let in last.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, origins, err := hosts.Load(c)
			if err != nil {
				return err
			}
			all := find(cmd.Context(), c, cfg, origins)
			rows := [][]string{{"NAME", "TOKEN SINCE", "SESSIONS", "LAST USED", "SEES", "STATED"}}
			for _, k := range all {
				rows = append(rows,
					[]string{k.Name, k.token(), k.sessions(), k.lastUsed(), k.sees(), console.NearbyPath(k.Stated)})
			}
			rows = append(rows, []string{console.Plural(len(all), "client")})
			return c.Print(console.Document{
				Kind:  "clients",
				Value: console.OrEmpty(all),
				Names: console.OrEmpty(names(cfg)),
				Rows:  rows,
				Drop:  []string{"STATED"},
			})
		},
	}
}

func names(cfg *config.Config) []string { return slices.Sorted(maps.Keys(cfg.Server.Clients)) }

func find(ctx context.Context, c *console.Console, cfg *config.Config, origins *config.Origins) (all []known) {
	running := hosts.All(ctx)
	var connected hosts.Connected
	connected.AddAll(ctx, c, running)
	for _, name := range names(cfg) {
		of := cfg.Server.Clients[name]
		k := known{
			Name:     name,
			Token:    of.TokenHash != "",
			Since:    of.Since,
			OldUntil: of.OldUntil,
			Stated:   origins.Of(strict.Join("server.clients", name)),
			Toolset:  of.Toolset,
			Mode:     of.Mode,
			Scope:    of.Scope,
			Approves: of.Approves,
		}
		if running != nil {
			k.join(&connected)
		}
		all = append(all, k)
	}
	return all
}

// join adds what the running hosts report about the client.
func (k *known) join(to *hosts.Connected) {
	n := 0
	for _, c := range to.Clients {
		if c.Caller == k.Name && c.Session != "" {
			n++
		}
	}
	k.Sessions = &n
	for _, c := range to.Named {
		if c.Name == k.Name {
			k.LastUsed = c.LastUsed
		}
	}
}

func (k *known) token() string {
	text := "unknown"
	switch since, err := time.Parse(time.RFC3339, k.Since); {
	case !k.Token:
		return "no token, stdio alone"
	case err == nil:
		text = console.Stamp(since.Local())
	}
	if until, err := time.Parse(time.RFC3339, k.OldUntil); err == nil && time.Now().Before(until) {
		text += fmt.Sprintf(", the old one for %s", console.Span(time.Until(until).Truncate(time.Second)))
	}
	return text
}

func (k *known) sessions() string {
	if k.Sessions == nil {
		return "no host runs"
	}
	return strconv.Itoa(*k.Sessions)
}

// sees describes what of its own a client has; "-" for nothing.
func (k *known) sees() string {
	var parts []string
	if k.Scope != "" {
		parts = append(parts, k.Scope+" alone")
	}
	if k.Toolset != "" {
		parts = append(parts, "toolset "+k.Toolset)
	}
	if k.Mode != "" {
		parts = append(parts, "mode "+k.Mode)
	}
	if len(k.Approves) > 0 {
		parts = append(parts, "approves "+config.RiskNames(k.Approves))
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

func (k *known) lastUsed() string {
	if k.LastUsed == nil {
		return "-"
	}
	return console.Stamp(k.LastUsed.Local())
}
