package secret

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/secret/signin"
	"github.com/exthost/exthost/protocol"
)

// flags are the flags of exthost secret login.
type flags struct {
	device, paste, list bool
	scopes              []string
	caller              string
}

// loginCommand returns exthost secret login, which signs the user in to a remote server.
func loginCommand(c *console.Console) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "login [ID]",
		Short: "Sign in to the server of an extension or destination",
		Long: "Sign in to the remote server of an extension or destination, where it wants that (OAuth). The\n" +
			"browser opens at the server's login; what you approve there is stored, encrypted, and renewed\n" +
			"from then on. A running host uses it at once.\n\n" +
			"Where no browser can open here, as over SSH: --paste has you open the address anywhere, and\n" +
			"paste back the one that the browser ends at. --device shows a code to enter elsewhere.",
		Example: "  exthost secret login gh\n  exthost secret login gh --scope repo,read:org\n  " +
			"exthost secret login gh --paste\n  exthost secret login --list",
		Args: func(cmd *cobra.Command, args []string) error {
			if f.list {
				return console.NoArgs(cmd, args)
			}
			return console.One("the id of an extension or the name of a destination")(cmd, args)
		},
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.list {
				return listLogins(c)
			}
			return login(cmd.Context(), c, args[0], f)
		},
	}
	cmd.Flags().BoolVar(&f.device, "device", false, "approve on another device, with a code")
	cmd.Flags().BoolVar(&f.paste, "paste", false,
		"open the address yourself, and paste the one that the browser ends at")
	callerFlag(cmd, &f.caller)
	cmd.Flags().StringSliceVar(&f.scopes, "scope", nil, "ask for these scopes too")
	cmd.Flags().BoolVar(&f.list, "list", false, "list what you have signed in to")
	cmd.MarkFlagsMutuallyExclusive("device", "paste", "list")
	return cmd
}

// patience is how long the user may take to approve.
const patience = 10 * time.Minute

func login(ctx context.Context, c *console.Console, id string, f flags) error {
	t, err := findTarget(ctx, c, id, f.caller)
	if err != nil {
		return err
	}
	store, err := t.store()
	if err != nil {
		return err
	}
	defer store.Close()
	earlier, err := store.Get(t.server.Place)
	if err != nil {
		c.Warn("the earlier login is replaced: %s", console.Safe(err.Error()))
		if err := store.Remove(t.server.Place); err != nil {
			return err
		}
	}
	way, closeWay, err := f.way(ctx, c, t, earlier)
	if err != nil {
		return err
	}
	defer closeWay()
	limited, cancel := context.WithTimeoutCause(ctx, patience, errors.New("nobody has approved within 10 minutes"))
	defer cancel()
	g, err := t.server.SignIn(limited, way, f.scopes, earlier)
	if errors.Is(err, signin.ErrNone) {
		return &console.Error{Code: console.ExitFailed, Text: id + " needs no login: the server answers without one"}
	}
	if err != nil {
		return &console.Error{
			Code: console.ExitFailed,
			Text: "not signed in to " + id + ": " + console.Safe(err.Error()),
			Hint: hint(err),
		}
	}
	if err := store.Put(ctx, g); err != nil {
		return fmt.Errorf("the login is not stored: %w", err)
	}
	did := "signed in to " + id + " (" + host(g.Issuer) + scopes(g.Scopes) + ")"
	came, err := t.apply(ctx, c)
	if err != nil {
		return fmt.Errorf("%s, but the running host cannot start it: %w", did, err)
	}
	c.Tell(did + came)
	return nil
}

func hint(err error) string {
	if errors.Is(err, context.Canceled) {
		return ""
	}
	return "exthost secret login --help"
}

// way returns the way in which the user approves the sign-in, and a function that releases what it needs.
func (f flags) way(ctx context.Context, c *console.Console, t *target, earlier *logins.Grant,
) (signin.Way, func(), error) {
	switch {
	case f.device:
		return &signin.Device{Show: func(address, code string) {
			c.Tell(fmt.Sprintf("Open %s on any device, and enter the code %s", console.Safe(address),
				console.Safe(code)))
		}}, func() {}, nil
	case f.paste:
		return &signin.Paste{
			Port: t.server.Port,
			Ask: func(_ context.Context, address string) (string, error) {
				c.Tell("Open this address in any browser:\n\n" + address +
					"\n\nThe browser ends at an address of 127.0.0.1, which it cannot open. Paste that address here.")
				return readAddress(c)
			},
		}, func() {}, nil
	}
	open := func(address string) {
		c.Tell("Approve in the browser. If none opens, open this address on this machine:\n\n" + address + "\n")
		if err := console.Browse(ctx, address); err != nil {
			c.Warn("no browser was opened: %s; on another machine: exthost secret login %s --paste",
				console.Safe(err.Error()), t.server.Place.ID)
		}
	}
	b, err := t.server.Browser(earlier, open)
	if err != nil {
		return nil, nil, err
	}
	return b, b.Close, nil
}

func host(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return console.Safe(address)
}

func scopes(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return "; " + console.Safe(strings.Join(list, " "))
}

// logoutCommand returns exthost secret logout.
func logoutCommand(c *console.Console) *cobra.Command {
	var caller string
	cmd := &cobra.Command{
		Use:   "logout ID",
		Short: "Forget the login of an extension or destination",
		Args:  console.One("the id of an extension or the name of a destination"),
		Long: "Forget what exthost secret login has stored, and have the authorization server revoke its " +
			"tokens where\nit can.",
		Example:           "  exthost secret logout gh",
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := findTarget(cmd.Context(), c, args[0], caller)
			if err != nil {
				return err
			}
			store, err := t.store()
			if err != nil {
				return err
			}
			defer store.Close()
			g, err := store.Get(t.server.Place)
			if err == nil && g != nil {
				if err := signin.Revoke(cmd.Context(), g); err != nil {
					c.Warn("the tokens are forgotten here and still count at %s: %s", host(g.Issuer),
						console.Safe(err.Error()))
				}
			}
			if err := store.Remove(t.server.Place); errors.Is(err, fs.ErrNotExist) {
				return &console.Error{
					Code: console.ExitNotFound,
					Text: "you are not signed in to " + args[0],
					Hint: "exthost secret login --list",
				}
			} else if err != nil {
				return err
			}
			came, err := t.apply(cmd.Context(), c)
			if protocol.KindOf(err) == protocol.RequirementMissing { // expected: it cannot start without the login
				came, err = "", nil
			}
			if err == nil {
				c.Tell("signed out of " + args[0] + came)
			}
			return err
		},
	}
	callerFlag(cmd, &caller)
	return cmd
}

func callerFlag(cmd *cobra.Command, caller *string) {
	cmd.Flags().StringVar(caller, "caller", "", "whose login it is, at a destination with credentials: per_caller")
}

// listLogins prints the logins.
func listLogins(c *console.Console) error {
	cfg, _, err := hosts.Load(c)
	if err != nil {
		return err
	}
	store, err := loginStore(cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	all, err := store.List()
	if err != nil {
		c.Warn("%s", console.Safe(err.Error()))
	}
	slices.SortFunc(all, func(a, b *logins.Grant) int {
		return strings.Compare(a.Place.ID+a.Place.Of+a.Place.Caller, b.Place.ID+b.Place.Of+b.Place.Caller)
	})
	return printLogins(c, all)
}

// loginInfo is a login without its tokens, as printed.
type loginInfo struct {
	ID      string    `json:"id"`
	Of      string    `json:"of,omitempty"` // directory of the extension, or configuration file
	Caller  string    `json:"caller,omitempty"`
	Server  string    `json:"server"`
	Issuer  string    `json:"issuer"` // of the authorization server
	Scopes  []string  `json:"scopes"`
	Renews  bool      `json:"renews"` // the login is renewed when its token expires
	Expires time.Time `json:"expires,omitzero"`
	Ended   string    `json:"ended,omitempty"` // why the user must sign in again
}

func printLogins(c *console.Console, all []*logins.Grant) error {
	values, names, rows := []loginInfo{}, []string{}, [][]string{{"ID", "CALLER", "SERVER", "STATE", "OF"}}
	for _, g := range all {
		k := loginInfo{
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

func (k *loginInfo) state() string {
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
