package config

import (
	"strings"

	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

// MaxClients bounds server.clients: each request is compared with all of them.
const MaxClients = 1024

func (f *finisher) checkClients(clients map[string]Client) {
	if len(clients) > MaxClients {
		f.fail("server.clients", "", "%d clients are more than %d", len(clients), MaxClients)
	}
	stated := make(map[string]clienttoken.Stated, len(clients))
	for name, c := range clients {
		f.checkScope(name, c)
		stated[name] = clienttoken.Stated{
			Hash:     c.TokenHash,
			OldHash:  c.OldTokenHash,
			OldUntil: c.OldUntil,
			Since:    c.Since,
		}
	}
	for _, p := range clienttoken.Check(stated) {
		at := "server.clients"
		if p.Client != "" {
			at = strings.TrimSuffix(strict.Join(at, p.Client)+"."+p.Key, ".")
		}
		f.fail(at, p.Hint, "%s", p.Message)
	}
}

// RiskNames returns the list as a text.
func RiskNames(list []protocol.Risk) string {
	names := make([]string, len(list))
	for i, r := range list {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}

// checkScope refuses what has no meaning for a client that calls no tools.
func (f *finisher) checkScope(name string, c Client) {
	if c.Scope == "" {
		return
	}
	for _, other := range []struct{ key, value string }{
		{"toolset", c.Toolset},
		{"mode", c.Mode},
		{"approves", RiskNames(c.Approves)},
	} {
		if other.value != "" {
			f.fail(strict.Join("server.clients", name)+"."+other.key, "leave it out, or the scope",
				"the client has scope %s, and is listed no tools", c.Scope)
		}
	}
	if c.TokenHash == "" {
		f.fail(strict.Join("server.clients", name)+".scope", "exthost client add makes a client with a token",
			"a client of scope %s needs a token", c.Scope)
	}
}
