package packages

import (
	"context"
	"errors"
	"fmt"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/local/vendorplugin"
	"github.com/exthost/exthost/internal/supply/marketplace"
	"github.com/exthost/exthost/internal/supply/packages"
)

// translate makes a plugin in the format of another program one that this program runs, as
// [packages.Installer.Translate] says.
func translate(dir string, listed *marketplace.Plugin) (notes []string, ok bool, err error) {
	p, ok, err := vendorplugin.Translate(dir, listed)
	if p != nil {
		notes = notesOf(p)
	}
	if err != nil && notes != nil {
		err = fmt.Errorf("%w; %s", err, notes[0])
	}
	return notes, ok, err
}

// notesOf says what of a plugin is left out or different.
func notesOf(p *vendorplugin.Plugin) (lines []string) {
	for _, n := range p.Notes {
		line := n.Part + ": " + n.Message
		if n.Dropped {
			line = "left out: " + line
		}
		lines = append(lines, line)
	}
	return lines
}

// maxHops bounds the sources that lead to one plugin.
const maxHops = 3

// resolveListed is resolve, which follows a marketplace to the source in which the plugin lies.
func resolveListed(ctx context.Context, c *console.Console, i *packages.Installer, s packages.Source,
) (*packages.Package, error) {
	for hop := 0; ; hop++ {
		p, err := resolve(ctx, c, i, s)
		at, ok := errors.AsType[*packages.Elsewhere](err)
		if !ok || hop == maxHops {
			return p, err
		}
		c.Tell(console.Safe(at.Error()))
		s = at.Source
	}
}

// listed is a plugin in the output of exthost add --list.
type listed struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Source      string `json:"source"`           // where it lies: a path in the repository, a repository or a package
	Reason      string `json:"reason,omitempty"` // why it cannot be added
}

// list prints the plugins of a marketplace.
func (t *terms) list(ctx context.Context, c *console.Console, from string) error {
	source, err := packages.Parse(from)
	if err != nil {
		return console.Usagef("exthost add SOURCE --list", "%v", err)
	}
	cfg, _, err := hosts.LoadTrusted(c)
	if err != nil {
		return err
	}
	i, err := t.installer(cfg)
	if err != nil {
		return err
	}
	m, err := marketplaceOf(ctx, c, i, source)
	if err != nil {
		return &console.Error{Code: console.ExitFailed, Text: console.Safe(err.Error()), Cause: err}
	}
	all, names, rows := []listed{}, []string{}, [][]string{{"PLUGIN", "SOURCE", "DESCRIPTION"}}
	for _, p := range m.Plugins {
		one := listed{Name: p.Name, Description: p.Description, Source: p.Source.String(), Reason: p.Reason}
		said := one.Description
		if one.Reason != "" {
			said = "cannot be added: " + one.Reason
		}
		all, names = append(all, one), append(names, one.Name)
		rows = append(rows, []string{one.Name, one.Source, said})
	}
	return c.Print(console.Document{Kind: "marketplace", Value: all, Names: names, Rows: rows, Drop: []string{"SOURCE"}})
}

func marketplaceOf(ctx context.Context, c *console.Console, i *packages.Installer, s packages.Source,
) (*marketplace.Marketplace, error) {
	defer c.Progress(func() string { return "fetching " + s.String() })()
	return i.Marketplace(ctx, s)
}
