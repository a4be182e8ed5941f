package hosts

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/secret/signin"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/runtime"
)

// Logins returns a function that opens the sign-ins of the user for a configuration. The stores are closed with c.
func Logins(c *console.Console) func(*config.Config) runtime.Logins {
	var mu sync.Mutex
	stores := make(map[string]*logins.Store)
	return func(cfg *config.Config) runtime.Logins {
		dir := cfg.Secrets.Logins
		if dir == "" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		s := stores[dir]
		if s == nil {
			s = logins.Open(dir, signin.Client)
			stores[dir] = s
			c.OnClose(s.Close)
		}
		return signedIn{s, cfg}
	}
}

// signedIn are the logins for one configuration.
type signedIn struct {
	store *logins.Store
	cfg   *config.Config
}

func (s signedIn) Login(p runtime.LoginPlace, t *manifest.Transport) runtime.Login {
	place := Place(p)
	return login{s.store.Login(place), s, place, t}
}

// login implements [runtime.SignsIn].
type login struct {
	*logins.Login
	of    signedIn
	place logins.Place
	t     *manifest.Transport
}

// SignIn signs in with a browser of this machine.
func (l login) SignIn(ctx context.Context, open func(ctx context.Context, address string) error) error {
	server, err := SignInServer(ctx, l.of.cfg, l.place, l.t)
	if err != nil {
		return err
	}
	earlier, err := l.of.store.Get(l.place)
	if err != nil {
		return err
	}
	var asking sync.WaitGroup // SignIn does not wait for open before the end: the user may be done earlier
	defer asking.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b, err := server.Browser(earlier, func(address string) {
		asking.Go(func() {
			if err := open(ctx, address); err != nil {
				cancel(err)
			}
		})
	})
	if err != nil {
		return err
	}
	defer b.Close()
	g, err := server.SignIn(ctx, b, nil, earlier)
	if err != nil {
		return err
	}
	return l.of.store.Put(ctx, g)
}

// SignInServer returns the server to sign in to for the login at p, with the settings of t.
func SignInServer(ctx context.Context, cfg *config.Config, p logins.Place, t *manifest.Transport,
) (*signin.Server, error) {
	s := &signin.Server{Place: p, SSE: t.Kind == manifest.KindSSE}
	o := t.OAuth
	if o == nil {
		return s, nil
	}
	secret, err := secrets.Replace(o.ClientSecret,
		func(name string) (string, error) { return Secrets(cfg).Lookup(ctx, name) })
	if err != nil {
		return nil, fmt.Errorf("oauth.client_secret: %w", err)
	}
	s.Settings = signin.Settings{
		ClientID:     o.ClientID,
		ClientSecret: secret,
		MetadataURL:  o.ClientMetadataURL,
		Scopes:       o.Scopes,
		Port:         o.CallbackPort,
	}
	return s, nil
}

// Place returns p for the store, with symbolic links resolved.
func Place(p runtime.LoginPlace) logins.Place {
	if real, err := filepath.EvalSymlinks(p.Of); p.Of != "" && err == nil {
		p.Of = real
	}
	return logins.Place(p)
}
