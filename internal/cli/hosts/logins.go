package hosts

import (
	"path/filepath"
	"sync"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/logins"
	"github.com/exthost/exthost/internal/signin"
	"github.com/exthost/exthost/runtime"
)

// Logins returns what the user has signed in to, for the configurations of one host. It is closed
// with c.
func Logins(c *console.Console) func(*config.Config) exthost.Logins {
	var mu sync.Mutex
	stores := make(map[string]*logins.Store)
	return func(cfg *config.Config) exthost.Logins {
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
		return signedIn{s}
	}
}

type signedIn struct{ store *logins.Store }

func (s signedIn) Login(p exthost.LoginPlace) runtime.Login { return s.store.Login(Place(p)) }

// Place returns the place of a login for the store. A directory is the same by every way to it.
func Place(p exthost.LoginPlace) logins.Place {
	if real, err := filepath.EvalSymlinks(p.Of); p.Of != "" && err == nil {
		p.Of = real
	}
	return logins.Place(p)
}
