package login

import (
	"cmp"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/secret/logins"
)

// known is a login without its tokens, as printed.
type known struct {
	ID      string    `json:"id"`
	Of      string    `json:"of,omitempty"` // the directory that states it
	Caller  string    `json:"caller,omitempty"`
	Server  string    `json:"server"`
	Issuer  string    `json:"issuer"` // of the authorization server
	Scopes  []string  `json:"scopes"`
	Renews  bool      `json:"renews"` // it is renewed when the token expires
	Expires time.Time `json:"expires,omitzero"`
	Ended   string    `json:"ended,omitempty"` // why the user must sign in again
}

func printed(c *console.Console, all []*logins.Grant) error {
	values, names, rows := []known{}, []string{}, [][]string{{"ID", "CALLER", "SERVER", "STATE", "OF"}}
	for _, g := range all {
		k := known{
			ID:      g.Place.ID,
			Of:      g.Place.Of,
			Caller:  g.Place.Caller,
			Server:  g.Place.URL,
			Issuer:  g.Issuer,
			Scopes:  console.OrEmpty(g.Scopes),
			Renews:  g.Refresh != "",
			Expires: g.Expires,
			Ended:   g.Ended,
		}
		values, names = append(values, k), append(names, k.ID)
		rows = append(rows, []string{k.ID, cmp.Or(k.Caller, "-"), host(k.Server), k.state(), k.Of})
	}
	rows = append(rows, []string{console.Plural(len(all), "login")})
	return c.Print(console.Document{
		Kind:  "logins",
		Value: values,
		Names: names,
		Rows:  rows,
		Drop:  []string{"OF"},
		Wrap:  true,
	})
}

func (k *known) state() string {
	switch {
	case k.Ended != "":
		return "needs login: " + k.Ended
	case k.Renews || k.Expires.IsZero():
		return "signed in"
	case time.Now().After(k.Expires):
		return "needs login: it has expired"
	}
	return "signed in for " + console.Span(time.Until(k.Expires))
}
