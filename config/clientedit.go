package config

import (
	"os"
	"path/filepath"

	"github.com/exthost/exthost/config/internal/edit"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

// ClientEdit is a change of one client of server.clients. Exactly one of New, Replace and Remove is set.
type ClientEdit struct {
	Name    string
	New     *Client             // adds a client
	Replace func(Client) Client // maps the existing client to its new value
	Remove  bool                // removes the existing client
}

// ByHand is the error for a file in a notation that is not changed automatically. It has the text that should replace
// the client in the file; "" to remove the client.
type ByHand = edit.ByHand

// EditClient changes a client in the file that states it, and leaves every other byte of the file unchanged. New
// clients go into the file of --config, else into the user's file, by default exthost.yaml. The error is of kind
// tool_not_found for an unknown client, of kind invalid_arguments for a new one that exists, is invalid or exceeds
// [MaxClients], a *[ByHand], a [Refused], or of kind config_invalid; the file is unchanged then.
func EditClient(o LoadOptions, c ClientEdit) (Edited, error) {
	if err := clienttoken.CheckName(c.Name); err != nil {
		return Edited{}, protocol.Errorf(protocol.InvalidArguments, "%w", err)
	}
	file, _, err := plannedClient(o, c)
	if err != nil {
		return Edited{}, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return Edited{}, protocol.Errorf(protocol.ConfigInvalid, "%w", err)
	}
	unlock, err := edit.Lock(file)
	if err != nil {
		return Edited{}, err
	}
	defer unlock()
	file, change, err := plannedClient(o, c) // again under the lock: another program may have changed the file
	if err != nil {
		return Edited{}, err
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
		return Edited{}, byHand
	}
	return Edited{File: file, Line: line, Changed: err == nil, Created: created}, err
}

// plannedClient returns the file to change and the change.
func plannedClient(o LoadOptions, c ClientEdit) (file string, change edit.Table, err error) {
	change = edit.Table{Path: []string{"server", "clients", c.Name}, Remove: c.Remove}
	cfg, origins, diags := Load(o)
	if cfg == nil {
		return "", change, Refused(diags)
	}
	now, known := cfg.Server.Clients[c.Name]
	key := strict.Join("server.clients", c.Name)
	var next Client
	switch {
	case known && c.New != nil:
		return "", change, protocol.Errorf(protocol.InvalidArguments, "there is a client %s already: %s", c.Name,
			origins.Of(key))
	case c.New != nil && len(cfg.Server.Clients) >= MaxClients:
		return "", change, protocol.Errorf(protocol.InvalidArguments,
			"there are %d clients already, and there can be no more: remove one with exthost client rm",
			MaxClients)
	case c.New != nil:
		next = *c.New
	case !known:
		return "", change, protocol.Errorf(protocol.ToolNotFound, "there is no client %s", c.Name)
	case !c.Remove:
		next = c.Replace(now)
	}
	change.Set = clientSettings(next)
	if file = origins.File(key); file == "" {
		file, err = UserFile(o, "server")
	}
	return file, change, err
}

// clientSettings returns the keys that the commands write for a client.
func clientSettings(c Client) []edit.Setting {
	return []edit.Setting{
		{Key: "token_hash", Value: c.TokenHash},
		{Key: "old_token_hash", Value: c.OldTokenHash},
		{Key: "old_until", Value: c.OldUntil},
		{Key: "since", Value: c.Since},
	}
}
