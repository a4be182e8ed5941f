// Package clientedit adds, changes and removes clients in configuration files.
package clientedit

import (
	"os"
	"path/filepath"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/config/internal/edit"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

// Edit is a change of one client of server.clients. Exactly one of New, Replace and Remove is set.
type Edit struct {
	Name    string
	New     *config.Client                    // adds a client
	Replace func(config.Client) config.Client // maps the existing client to its new value
	Remove  bool                              // removes the existing client
}

// ByHand is the error for a file in a notation that this package cannot change safely.
type ByHand struct {
	File  string
	Lines string // the text that should replace the client in the file; "" to remove the client
	Err   error
}

// Error names the file and the cause.
func (b *ByHand) Error() string { return b.File + ": " + b.Err.Error() }

// Apply changes a client in the file that states it, and leaves every other byte of the file unchanged. New
// clients go into the file of --config, else into the user's file, by default exthost.yaml. The error is of kind
// tool_not_found for an unknown client, of kind invalid_arguments for an existing, invalid or surplus new one, a
// *[ByHand], a [config.Refused], or of kind config_invalid; the file is unchanged then.
func Apply(o config.LoadOptions, c Edit) (config.Edited, error) {
	if err := clienttoken.CheckName(c.Name); err != nil {
		return config.Edited{}, protocol.Errorf(protocol.InvalidArguments, "%w", err)
	}
	file, _, err := planned(o, c)
	if err != nil {
		return config.Edited{}, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return config.Edited{}, protocol.Errorf(protocol.ConfigInvalid, "%w", err)
	}
	unlock, err := edit.Lock(file)
	if err != nil {
		return config.Edited{}, err
	}
	defer unlock()
	file, change, err := planned(o, c) // again under the lock: another program may have changed the file
	if err != nil {
		return config.Edited{}, err
	}
	var byHand *ByHand
	line, created, err := edit.Write(file, func(data []byte) ([]byte, int, error) {
		changed, line, err := edit.ApplyTable(file, data, change)
		if err != nil {
			byHand = &ByHand{File: file, Err: err}
		}
		return changed, line, err
	})
	switch {
	case byHand != nil && !c.Remove:
		byHand.Lines = change.Lines(file)
		fallthrough
	case byHand != nil:
		return config.Edited{}, byHand
	}
	return config.Edited{File: file, Line: line, Changed: err == nil, Created: created}, err
}

// planned returns the file to change and the change.
func planned(o config.LoadOptions, c Edit) (file string, change edit.Table, err error) {
	change = edit.Table{Path: []string{"server", "clients", c.Name}, Remove: c.Remove}
	cfg, origins, diags := config.Load(o)
	if cfg == nil {
		return "", change, config.Refused(diags)
	}
	now, known := cfg.Server.Clients[c.Name]
	key := strict.Join("server.clients", c.Name)
	var next config.Client
	switch {
	case known && c.New != nil:
		return "", change, protocol.Errorf(protocol.InvalidArguments, "there is a client %s already: %s", c.Name,
			origins.Of(key))
	case c.New != nil && len(cfg.Server.Clients) >= config.MaxClients:
		return "", change, protocol.Errorf(protocol.InvalidArguments,
			"there are %d clients already, and there can be no more: remove one with exthost client rm",
			config.MaxClients)
	case c.New != nil:
		next = *c.New
	case !known:
		return "", change, protocol.Errorf(protocol.ToolNotFound, "there is no client %s", c.Name)
	case !c.Remove:
		next = c.Replace(now)
	}
	change.Set = settings(next)
	if file = origins.File(key); file == "" {
		file, err = config.UserFile(o, "server")
	}
	return file, change, err
}

// settings returns the keys that the commands write for a client.
func settings(c config.Client) []edit.Setting {
	return []edit.Setting{
		{Key: "token_hash", Value: c.TokenHash},
		{Key: "old_token_hash", Value: c.OldTokenHash},
		{Key: "old_until", Value: c.OldUntil},
		{Key: "since", Value: c.Since},
	}
}
