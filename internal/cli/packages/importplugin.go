package packages

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/local/vendorplugin"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/manifest"
)

// readPlugin reads a plugin, and renders the plugin.toml with which it runs.
func (f importing) readPlugin(name, dir string) (imported, error) {
	p, err := vendorplugin.Read(dir, nil)
	if err != nil {
		why := fmt.Sprintf("%s: %v", name, err)
		if p != nil {
			why += "; " + strings.Join(notesOf(p), "; ")
		}
		return imported{}, &console.Error{Code: console.ExitInvalid, Text: console.Safe(why)}
	}
	out := imported{
		File:    name,
		Client:  string(p.Format),
		Servers: []importServer{},
		Notes:   []importNote{},
		Files:   []importFile{{Path: filepath.Join("extensions", p.ID, manifest.FileName), Text: string(p.TOML())}},
		plugin:  dir,
	}
	for i := range p.Servers {
		s := &p.Servers[i]
		runs := "connects to " + s.URL
		if s.URL == "" {
			runs = "runs " + text.ShellLine(append([]string{s.Command}, s.Args...))
		}
		out.Servers = append(out.Servers, importServer{
			ID:        p.ExtensionID(s),
			Name:      s.ID,
			Kind:      s.Type,
			Runs:      runs,
			Variables: s.Asks,
		})
	}
	for _, n := range p.Notes {
		out.Notes = append(out.Notes, importNote{Server: n.Part, Dropped: n.Dropped, Message: n.Message})
	}
	return out, nil
}

func (one imported) isPlugin() bool { return one.plugin != "" }

// addPlugins adds the imported plugins as exthost add does, and returns the files that it wrote.
func (f importing) addPlugins(ctx context.Context, c *console.Console, all []imported) (written []string, err error) {
	for _, one := range all {
		if !one.isPlugin() {
			continue
		}
		if f.as == asDestinations || f.to != "" {
			return nil, console.Usagef("exthost import "+one.File+" --write",
				"a plugin is added as an extension beside exthost.lock, and takes neither --to nor --as destinations")
		}
		if err := (&terms{yes: true}).add(ctx, c, one.plugin, nil); err != nil {
			return nil, err
		}
		written = append(written, one.Files[0].Path)
	}
	return written, nil
}
