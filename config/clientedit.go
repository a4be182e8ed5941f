package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/config/internal/edit"
	"github.com/exthost/exthost/internal/listing/toolsearch"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

// ClientEdit is a change of one client of server.clients. Exactly one of New, Replace and Remove is set.
type ClientEdit struct {
	Name    string
	New     *Client             // adds a client
	Replace func(Client) Client // maps the existing client to its new value
	Remove  bool                // removes the existing client
	Digest  string              // of the file, by [Digest]: another content is left as it is; "": whatever it is
}

// EditClient changes a client in the file that states it, and leaves every other byte of the file unchanged. New
// clients go into the file of --config, else into the user's file, by default exthost.yaml. The error is of kind
// tool_not_found for an unknown client or toolset, of kind invalid_arguments for a new client that exists or exceeds
// [MaxClients] and for values that the configuration would refuse, a *[ByHand], a [Refused], of kind config_invalid,
// or of the file system; the file is unchanged then.
func EditClient(o LoadOptions, c ClientEdit) (Edited, error) {
	if err := clienttoken.CheckName(c.Name); err != nil {
		return Edited{}, misfit(protocol.InvalidArguments, "name", "", err.Error())
	}
	return makeEdit(c.Digest, func() (plannedEdit, error) { return plannedClient(o, c) })
}

// plannedClient plans the change of a client.
func plannedClient(o LoadOptions, c ClientEdit) (p plannedEdit, err error) {
	change := edit.Table{Path: []string{"server", "clients", c.Name}, Remove: c.Remove}
	cfg, err := Load(o)
	if err != nil {
		return p, err
	}
	now, known := cfg.Server.Clients[c.Name]
	key := strict.Join("server.clients", c.Name)
	var next Client
	switch {
	case known && c.New != nil:
		return p, misfit(protocol.InvalidArguments, "name", "",
			fmt.Sprintf("there is a client %s already: %s", c.Name, cfg.Origins.Of(key)))
	case c.New != nil && len(cfg.Server.Clients) >= MaxClients:
		return p, protocol.Errorf(protocol.InvalidArguments,
			"there are %d clients already, and there can be no more: remove one with exthost client remove",
			MaxClients)
	case c.New != nil:
		next = *c.New
	case !known:
		return p, protocol.Errorf(protocol.ToolNotFound, "there is no client %s", c.Name)
	case !c.Remove:
		next = c.Replace(now)
	}
	if err := checkClient(o, cfg, next); err != nil {
		return p, err
	}
	change.Set = clientSettings(now, next)
	if !c.Remove {
		whole := edit.Table{Path: change.Path, Set: clientSettings(Client{}, next)}
		p.lines = whole.Lines
	}
	if p.file = cfg.Origins.File(key); p.file == "" {
		p.file, err = UserFile(o, "server")
	}
	p.apply = func(data []byte) ([]byte, int, error) { return edit.ApplyTable(p.file, data, change) }
	return p, err
}

// unknownWord returns the error for a value of a client that is none of the words which the configuration has for it.
func unknownWord(c Client) error {
	type part struct {
		field, value string
		words        []string
		optional     bool
	}
	parts := []part{
		{"mode", c.Mode, []string{toolsearch.ModeAll, toolsearch.ModeSearch, toolsearch.ModeAuto}, true},
		{"scope", c.Scope, []string{ScopeMetrics}, true},
	}
	for _, risk := range c.Approves {
		parts = append(parts, part{"approves", string(risk), risk.Values(), false})
	}
	for _, part := range parts {
		if !(part.optional && part.value == "") && !slices.Contains(part.words, part.value) {
			return misfit(protocol.InvalidArguments, part.field, text.Nearest(part.value, part.words),
				fmt.Sprintf("%s is %s, not %.80q", part.field, strings.Join(part.words, " or "), part.value))
		}
	}
	return nil
}

// checkClient returns the error for values of a client that the configuration would refuse.
func checkClient(o LoadOptions, cfg *Config, c Client) error {
	if err := unknownWord(c); err != nil {
		return err
	}
	switch {
	case c.Scope != "" && (c.Toolset != "" || c.Mode != "" || len(c.Approves) > 0):
		return misfit(protocol.InvalidArguments, "scope", "",
			fmt.Sprintf("a client of scope %s is listed no tools: leave out toolset, mode and approves", c.Scope))
	case c.Scope != "" && c.TokenHash == "":
		return misfit(protocol.InvalidArguments, "scope", "",
			fmt.Sprintf("a client of scope %s needs a token: exthost client rotate gives it one", c.Scope))
	case c.Toolset == "":
		return nil
	}
	if _, known := cfg.Toolsets[c.Toolset]; !known {
		names := slices.Sorted(maps.Keys(cfg.Toolsets))
		return misfit(protocol.ToolNotFound, "toolset", text.Nearest(c.Toolset, names),
			fmt.Sprintf("there is no toolset %.80q", c.Toolset))
	}
	o.NoProject = true
	own, err := Load(o)
	if err != nil {
		return err
	}
	if _, known := own.Toolsets[c.Toolset]; !known {
		return misfit(protocol.ConfigInvalid, "toolset", "", fmt.Sprintf("toolset %s is stated by a project's file, "+
			"which does not say what the user's clients see", c.Toolset))
	}
	return nil
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
			set = append(set, edit.Setting{Key: s.key, Value: edit.Text(s.now)})
		}
	}
	if !slices.Equal(was.Approves, c.Approves) {
		set = append(set, edit.Setting{Key: "approves", Value: risks(c.Approves)})
	}
	return set
}

// risks returns list as the value of a setting, or nil for an empty one.
func risks(list []protocol.Risk) any {
	var value []any
	for _, risk := range list {
		value = append(value, string(risk))
	}
	if value == nil {
		return nil
	}
	return value
}
