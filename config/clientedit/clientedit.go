// Package clientedit changes the clients in the files of a configuration.
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

// Edit is a change of one client of server.clients. One of New, Replace and Remove is set.
type Edit struct {
	Name    string
	New     *config.Client                    // of a client that is not there
	Replace func(config.Client) config.Client // returns what one that is there becomes
	Remove  bool                              // one that is there
}

// ByHand is the error of a file whose notation is not known well enough to change it.
type ByHand struct {
	File  string
	Lines string // for a person to write into the file in place of what it has of the client; "" to remove that
	Err   error
}

// Error names the file.
func (b *ByHand) Error() string { return b.File + ": " + b.Err.Error() }

// Apply changes a client in the file that states it, and leaves every other byte of the file
// unchanged. A new client comes into the file of --config; without one, into the user's, which is
// exthost.yaml if there is none. The error is of kind tool_not_found for a client that is not there,
// of kind invalid_arguments for one that is there already, cannot be or is one too many, *[ByHand],
// [config.Refused], or of kind config_invalid; nothing is written then.
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
	file, change, err := planned(o, c) // again: another program may have changed the file
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

// settings are the keys of a client that commands write.
func settings(c config.Client) []edit.Setting {
	return []edit.Setting{
		{Key: "token_hash", Value: c.TokenHash},
		{Key: "old_token_hash", Value: c.OldTokenHash},
		{Key: "old_until", Value: c.OldUntil},
		{Key: "since", Value: c.Since},
	}
}
