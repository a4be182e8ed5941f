package config

import (
	"maps"
	"slices"
	"time"

	"github.com/exthost/exthost/internal/clienttoken"
	"github.com/exthost/exthost/internal/strict"
)

// MaxClients bounds the clients of one configuration: each request is compared with all of them.
const MaxClients = 1024

func checkClients(f *finisher, clients map[string]Client) {
	const path = "server.clients"
	if len(clients) > MaxClients {
		f.fail(path, "", "%d clients are more than %d", len(clients), MaxClients)
	}
	owners := map[string]string{} // of the hashes
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		c, at := clients[name], strict.Join(path, name)
		if err := clienttoken.CheckName(name); err != nil {
			f.fail(at, "", "%v", err)
		}
		for _, hash := range []struct{ key, text string }{{"token_hash", c.TokenHash}, {"old_token_hash", c.OldTokenHash}} {
			if hash.text == "" {
				continue
			}
			sum, err := clienttoken.ParseHash(hash.text)
			if err != nil {
				f.fail(at+"."+hash.key, "exthost client add NAME makes a token and its hash", "%v", err)
			} else if other := owners[string(sum[:])]; other != "" {
				f.fail(at+"."+hash.key, "exthost client rotate "+name, "it is the hash of another token too: %s", other)
			} else {
				owners[string(sum[:])] = at + "." + hash.key
			}
		}
		if (c.OldTokenHash == "") != (c.OldUntil == "") {
			f.fail(at, "", "old_token_hash and old_until go together")
		}
		for _, date := range []struct{ key, text string }{{"old_until", c.OldUntil}, {"since", c.Since}} {
			if _, err := time.Parse(time.RFC3339, date.text); date.text != "" && err != nil {
				f.fail(at+"."+date.key, "such as 2030-01-31T12:00:00Z", "%q is not a date and time", date.text)
			}
		}
	}
}
