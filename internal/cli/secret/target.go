package secret

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/cli/trust"
	"github.com/exthost/exthost/internal/host/permit"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/secret/signin"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/runtime"
)

// target is the server to sign in to.
type target struct {
	cfg    *config.Config
	server *signin.Server
}

// findTarget returns the extension or destination called id. caller selects that caller's own login at a destination;
// "" selects the login that all callers share.
func findTarget(ctx context.Context, c *console.Console, id, caller string) (*target, error) {
	cfg, _, err := hosts.Load(c)
	if err != nil {
		return nil, err
	}
	k, err := hosts.Trusted(cfg) // before contact to an address in the project's files, which may contain variables
	if err != nil {
		return nil, err
	}
	if d, ok := cfg.Destinations[id]; ok && d.URL != "" {
		return findDestination(ctx, cfg, id, &d, caller)
	}
	if caller != "" {
		return nil, console.Usagef("", "%s is no destination, and only these have a login for each caller", id)
	}
	found, err := trust.Discover(ctx, cfg)
	if err != nil {
		return nil, err
	}
	n := slices.IndexFunc(found, func(c discovery.Candidate) bool { return c.ID == id })
	if n < 0 {
		return nil, &console.Error{
			Code: console.ExitNotFound,
			Text: "there is no extension or destination " + console.Safe(id),
			Hint: "exthost status",
		}
	}
	rules := permit.Rules{Consent: k}
	if d := rules.Untrusted(cfg, &found[n], os.Environ()); d != nil {
		return nil, &console.Error{Code: console.ExitDenied, Text: id + ": " + d.Message, Hint: d.Hint}
	}
	return newTarget(ctx, cfg, runtime.LoginPlace{ID: id, Of: found[n].Dir}, &found[n].Manifest.Transport, "transport")
}

func findDestination(ctx context.Context, cfg *config.Config, id string, d *config.Destination, caller string,
) (*target, error) {
	path := strict.Join("destinations", id)
	for _, use := range cfg.SecretUses {
		if use.Project && strings.HasPrefix(use.Key, path+".") {
			return nil, &console.Error{Code: console.ExitDenied, Text: use.Key + ": " + config.NotOfProject}
		}
	}
	at := runtime.LoginPlace{ID: id, Caller: caller}
	if d.Project {
		at.Of = cfg.Project.Dir
	}
	switch each := d.Credentials == config.CredentialsPerCaller; {
	case each && caller == "":
		return nil, console.Usagef("exthost secret login "+id+" --caller NAME",
			"each caller of %s has a login of its own (credentials: per_caller)", id)
	case !each && caller != "":
		return nil, console.Usagef("state credentials: per_caller under "+path, "one login of %s serves all callers",
			id)
	}
	return newTarget(ctx, cfg, at, &manifest.Transport{Kind: d.Type, URL: d.URL, Headers: d.Headers, OAuth: d.OAuth},
		path)
}

// newTarget returns the target for t. key is where the configuration or the manifest states it.
func newTarget(ctx context.Context, cfg *config.Config, at runtime.LoginPlace, t *manifest.Transport, key string,
) (*target, error) {
	id := at.ID
	if t.URL == "" {
		return nil, console.Usagef("exthost status "+id,
			"%s is a process of this machine, and no server to sign in to; exthost secret set NAME keeps what its "+
				"environment needs", id)
	}
	if t.Kind == manifest.KindNATS {
		return nil, console.Usagef("exthost status "+id,
			"%s is a service on NATS, and no server to sign in to: token_env or token_file under %s has its "+
				"credentials", id, key)
	}
	if !t.SignsIn() {
		return nil, console.Usagef("remove the token or the header Authorization of "+key,
			"%s states its own credentials", id)
	}
	address, err := process.Expand(t.URL, func(name string) (string, bool) {
		if value, ok := cfg.Extensions.Environ(id)[name]; ok {
			return value, ok
		}
		return os.LookupEnv(name)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s.url: %w", key, err)
	case secrets.Refers(address):
		return nil, console.Usagef("state the address without it",
			"%s.url has a secret: such an address is a login by itself", key)
	}
	at.URL = address
	server, err := hosts.SignInServer(ctx, cfg, hosts.Place(at), t)
	if err != nil {
		return nil, fmt.Errorf("%s.%w", key, err)
	}
	return &target{cfg: cfg, server: server}, nil
}

func (t *target) store() (*logins.Store, error) { return loginStore(t.cfg) }

func loginStore(cfg *config.Config) (*logins.Store, error) {
	if cfg.Secrets.Logins == "" {
		return nil, &console.Error{
			Code: console.ExitFailed,
			Text: "there is no directory of the user's configuration to keep logins in",
			Hint: "state secrets.logins",
		}
	}
	return logins.Open(cfg.Secrets.Logins, signin.Client), nil
}

// apply restarts the extension in the running host, so that it uses the new login. It returns the end of a sentence
// that reports the restart, and the error of the start.
func (t *target) apply(ctx context.Context, c *console.Console) (string, error) {
	r, err := hosts.Find(ctx)
	switch {
	// the next call uses the login; a restart would end the sessions of other callers
	case err != nil || t.server.Place.Caller != "":
		return "", nil
	case r.Info.Scope != hosts.Scope(c, t.cfg): // its extension with this id may be a different one
		return fmt.Sprintf("; the host that runs here (pid %d) has other flags: exthost restart %s", r.Info.PID,
			t.server.Place.ID), nil
	}
	err = r.Post(ctx, "/api/v1/extensions/"+url.PathEscape(t.server.Place.ID)+"/restart", nil, nil)
	return fmt.Sprintf("; the running host (pid %d) has started it again", r.Info.PID), err
}

// maxPasted is the longest pasted address, in bytes.
const maxPasted = 64 << 10

// readAddress reads an address without echo: it contains a code.
func readAddress(c *console.Console) (string, error) {
	if c.Interactive() {
		return c.ReadSecret("address (not shown): ")
	}
	line, err := bufio.NewReader(io.LimitReader(c.In, maxPasted)).ReadString('\n')
	if errors.Is(err, io.EOF) && strings.TrimSpace(line) != "" {
		err = nil
	}
	return line, err
}
