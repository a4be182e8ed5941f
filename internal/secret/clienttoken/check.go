package clienttoken

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Stated holds the token settings of a client in the configuration.
type Stated struct{ Hash, OldHash, OldUntil, Since string }

// Problem is an error in the configuration of a client.
type Problem struct {
	Client  string // "" for the number of clients
	Key     string // configuration key; "" for the client as a whole
	Message string
	Hint    string // next step; may be ""
}

// maxClients limits the clients, because each request is compared with all of them.
const maxClients = 1024

// Check returns the errors in the configured clients, sorted by name.
func Check(clients map[string]Stated) (list []Problem) {
	if len(clients) > maxClients {
		list = append(list, Problem{"", "", fmt.Sprintf("%d clients are more than %d", len(clients), maxClients), ""})
	}
	owners := make(map[string]string) // client and key by hash
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		c := clients[name]
		fail := func(key, hint, format string, args ...any) {
			list = append(list, Problem{name, key, fmt.Sprintf(format, args...), hint})
		}
		if err := CheckName(name); err != nil {
			fail("", "", "%v", err)
		}
		for _, hash := range []struct{ key, text string }{{"token_hash", c.Hash}, {"old_token_hash", c.OldHash}} {
			if hash.text == "" {
				continue
			}
			sum, err := ParseHash(hash.text)
			if err != nil {
				fail(hash.key, "exthost client add NAME makes a token and its hash", "%v", err)
			} else if other := owners[string(sum[:])]; other != "" {
				fail(hash.key, "exthost client rotate "+name, "it is the hash of another token too: server.clients.%s",
					other)
			} else {
				owners[string(sum[:])] = name + "." + hash.key
			}
		}
		if (c.OldHash == "") != (c.OldUntil == "") {
			fail("", "", "old_token_hash and old_until go together")
		}
		for _, date := range []struct{ key, text string }{{"old_until", c.OldUntil}, {"since", c.Since}} {
			if _, err := time.Parse(time.RFC3339, date.text); date.text != "" && err != nil {
				fail(date.key, "such as 2030-01-31T12:00:00Z", "%q is not a date and time", date.text)
			}
		}
	}
	return list
}
