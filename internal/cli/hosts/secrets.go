package hosts

import (
	"context"
	"os"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/file/ownership"
	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/secret/secrets/agefile"
	"github.com/exthost/exthost/internal/secret/secrets/stored"
	"github.com/exthost/exthost/internal/supply/consent"
)

// Secrets returns the store of secrets that the configuration selects.
func Secrets(cfg *config.Config) exthost.Secrets {
	s := cfg.Secrets
	switch s.Provider {
	case config.SecretsKeyring:
		return stored.Keyring{Timeout: s.Timeout.Std()}
	case config.SecretsCommand:
		return stored.Command{Argv: s.Command, Dir: s.Dir, Env: os.Environ(), Timeout: s.Timeout.Std()}
	case config.SecretsEnv:
		return stored.Env{Environ: os.Environ()}
	case config.SecretsFile:
		return stored.File{Path: s.Path, Owners: ownership.Rule{Safe: cfg.Extensions.SafeDirectories}}
	}
	return agefile.Store{Path: s.Path, Identity: s.Identity}
}

// SecretWriter is a store of secrets that this program can write.
type SecretWriter interface {
	exthost.Secrets
	Set(name, value string) error
	Remove(name string) error
}

// triedSecrets is [Secrets] for commands that report what is missing: it looks up every secret, also in a keyring or
// with a program, until ctx ends.
func triedSecrets(ctx context.Context) func(*config.Config) exthost.Secrets {
	return func(cfg *config.Config) exthost.Secrets { return tried{Secrets(cfg), ctx} }
}

type tried struct {
	exthost.Secrets
	ctx context.Context
}

// Check looks up the secret and drops its value.
func (t tried) Check(name string) error {
	_, err := t.Lookup(t.ctx, name)
	return err
}

// Grants returns a consent to run everything, for extensions that the user has named. Stored secrets still need a
// grant, since an extension may be a remote server. Grants returns nil if extensions.trust is off.
func Grants(cfg *config.Config) (exthost.Consent, error) {
	k, err := Consent(cfg)
	if err != nil || k == nil {
		return nil, err
	}
	return grants{k}, nil
}

type grants struct{ *consent.Consent }

// Allows permits all.
func (grants) Allows(*discovery.Candidate) error { return nil }

// Starts permits all.
func (grants) Starts(*discovery.Candidate) (func() error, error) { return nil, nil }

// StartsConfigured permits all.
func (grants) StartsConfigured(*config.Config) (func() error, error) { return nil, nil }

// Granted reports whether the user granted a stored secret. Variables need no grant.
func (g grants) Granted(c *discovery.Candidate, name string) bool {
	return !strings.HasPrefix(name, secrets.Scheme) || g.Consent.Granted(c, name)
}
