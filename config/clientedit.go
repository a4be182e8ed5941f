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
	file, _, _, err := plannedClient(o, c)
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
	file, change, whole, err := plannedClient(o, c) // again under the lock: another program may have changed the file
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
		byHand.Lines = whole.Lines(file)
		fallthrough
	case byHand != nil:
		return Edited{}, byHand
	}
	return Edited{File: file, Line: line, Changed: err == nil, Created: created}, err
}

// plannedClient returns the file to change, the change, and the whole client after it.
func plannedClient(o LoadOptions, c ClientEdit) (file string, change, whole edit.Table, err error) {
	change = edit.Table{Path: []string{"server", "clients", c.Name}, Remove: c.Remove}
	cfg, err := Load(o)
	if err != nil {
		return "", change, whole, err
	}
	now, known := cfg.Server.Clients[c.Name]
	key := strict.Join("server.clients", c.Name)
	var next Client
	switch {
	case known && c.New != nil:
		return "", change, whole, protocol.Errorf(protocol.InvalidArguments, "there is a client %s already: %s", c.Name,
			cfg.Origins.Of(key))
	case c.New != nil && len(cfg.Server.Clients) >= MaxClients:
		return "", change, whole, protocol.Errorf(protocol.InvalidArguments,
			"there are %d clients already, and there can be no more: remove one with exthost client remove",
			MaxClients)
	case c.New != nil:
		next = *c.New
	case !known:
		return "", change, whole, protocol.Errorf(protocol.ToolNotFound, "there is no client %s", c.Name)
	case !c.Remove:
		next = c.Replace(now)
	}
	change.Set = clientSettings(now, next)
	whole = edit.Table{Path: change.Path, Set: clientSettings(Client{}, next)}
	if file = cfg.Origins.File(key); file == "" {
		file, err = UserFile(o, "server")
	}
	return file, change, whole, err
}

// clientSettings returns the keys that differ between was and c. Others stay as the file has them: they may come from
// elsewhere, such as an environment variable.
func clientSettings(was, c Client) (set []edit.Setting) {
	for _, s := range []struct{ key, was, now string }{
		{"token_hash", was.TokenHash, c.TokenHash},
		{"old_token_hash", was.OldTokenHash, c.OldTokenHash},
		{"old_until", was.OldUntil, c.OldUntil},
		{"since", was.Since, c.Since},
		{"toolset", was.Toolset, c.Toolset},
		{"mode", was.Mode, c.Mode},
		{"scope", was.Scope, c.Scope},
	} {
		if s.was != s.now {
			set = append(set, edit.Setting{Key: s.key, Value: s.now})
		}
	}
	return set
}
