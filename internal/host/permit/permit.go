// Package permit decides whether something may start: by the consent of the working directory's user, and by the
// lock of packages.
package permit

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/host/given"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// Consent is what the user agreed to.
type Consent interface {
	// Allows returns nil if the extension may run as it is on disk now, else why not.
	Allows(c *discovery.Candidate) error
	// Starts is Allows before the start of a process. still, unless nil, is called when the process has loaded
	// its code: its error says that the code may differ from what was allowed.
	Starts(c *discovery.Candidate) (still func() error, err error)
	// StartsConfigured is Starts for the programs in the working directory that its configuration names.
	StartsConfigured(cfg *config.Config) (still func() error, err error)
	// Granted reports whether the extension may have a secret that its manifest asks for.
	Granted(c *discovery.Candidate, name string) bool
}

// Packages locates the files of packages that extensions run.
type Packages interface {
	// Verify returns the directory of the package of c after comparing its files with the lock; "" if c runs no
	// package. beside lists data files in dir that the package's program has written. The error says why the package
	// may not run.
	Verify(c *discovery.Candidate) (dir string, beside []string, err error)
	// Tools returns the locked hashes of the tool descriptors of c, nil if none.
	Tools(c *discovery.Candidate) map[string]string
}

// Rules are the permissions of a host. Nil parts permit everything.
type Rules struct {
	Consent  Consent  // decides what of the working directory may run
	Packages Packages // locates the files of packages
}

// Variable names the environment variable with the directory of an extension's package.
const Variable = "EXTHOST_PACKAGE"

// Tools returns the locked hash of each tool descriptor of c, by the extension's own tool name; nil if none are
// locked.
func (r *Rules) Tools(c *discovery.Candidate) map[string]string {
	if r.Packages == nil {
		return nil
	}
	return r.Packages.Tools(c)
}

// Package returns the directory of the package of c, and env with [Variable] set to it.
func (r *Rules) Package(c *discovery.Candidate, env map[string]string) (string, map[string]string, error) {
	if r.Packages == nil {
		return "", env, nil
	}
	dir, _, err := r.Packages.Verify(c)
	if err != nil || dir == "" {
		return "", env, err
	}
	if env = maps.Clone(env); env == nil {
		env = map[string]string{}
	}
	env[Variable] = dir
	return dir, env, nil
}

// CodeBeside is the code of the diagnostic that lists data files beside the code of a package.
const CodeBeside = "package_data"

// Unpacked reports why the package of c may not run. If the package may run, Unpacked reports data files beside its
// code, at [protocol.LevelInfo]; nil if there are none, or no package.
func (r *Rules) Unpacked(c *discovery.Candidate) *protocol.Diagnostic {
	if r.Packages == nil {
		return nil
	}
	dir, beside, err := r.Packages.Verify(c)
	if err == nil && len(beside) == 0 {
		return nil
	}
	if err == nil {
		return &protocol.Diagnostic{
			Level:     protocol.LevelInfo,
			Code:      CodeBeside,
			Extension: c.ID,
			Path:      c.Path,
			Message:   "beside its code, its program keeps files that are not of the package: " + consent.Some(beside),
			Hint:      "they stay, also when the package is upgraded or removed; they are in " + dir,
		}
	}
	d := &protocol.Diagnostic{
		Level:     protocol.LevelWarn,
		Code:      CodeUntrusted,
		Extension: c.ID,
		Path:      c.Path,
		Message:   protocol.Reason(err),
	}
	if refused, ok := errors.AsType[nexter](err); ok {
		d.Hint = refused.Next()
	}
	if kind := protocol.KindOf(err); kind != "" {
		d.Code = string(kind)
	}
	return d
}

// Codes of diagnostics about extensions without the user's consent.
const (
	CodeUntrusted = string(protocol.Untrusted) // nobody has agreed to run it
	CodeRevoked   = "trust_revoked"            // the user no longer agrees to run it
)

// Untrusted reports that c lacks the user's consent, nil if it does not.
func (r *Rules) Untrusted(cfg *config.Config, c *discovery.Candidate, environ []string) *protocol.Diagnostic {
	d := &protocol.Diagnostic{Level: protocol.LevelWarn, Code: CodeUntrusted, Extension: c.ID, Path: c.Path}
	if err := r.allows(cfg, c); err != nil {
		d.Message, d.Hint = protocol.Reason(err), "exthost trust "+c.ID
		if _, revoked := errors.AsType[consent.Revoked](err); revoked {
			d.Code = CodeRevoked
		}
		return d
	}
	if names := Ungranted(r.Consent, environ, cfg, c); names != nil {
		d.Message = "it asks for secrets that it was not granted: " + strings.Join(names, ", ")
		d.Hint = "exthost secret grant " + c.ID + " " + strings.Join(names, " ")
		return d
	}
	return nil
}

// allows asks for consent if c needs it.
func (r *Rules) allows(cfg *config.Config, c *discovery.Candidate) error {
	if !r.asks(cfg, c) {
		return nil
	}
	return r.Consent.Allows(c)
}

func (r *Rules) asks(cfg *config.Config, c *discovery.Candidate) bool {
	return r.Consent != nil && Asks(cfg, c)
}

// Asks reports whether c needs the user's consent: it was found through the working directory, or loads code from
// it.
func Asks(cfg *config.Config, c *discovery.Candidate) bool {
	return cfg.Project.SearchPaths || consent.StatesCode(cfg, c)
}

// Ungranted returns the secrets that c asks for without a grant: variables of environ that look like secrets, and
// references to stored secrets.
func Ungranted(k Consent, environ []string, cfg *config.Config, c *discovery.Candidate) (names []string) {
	if k == nil {
		return nil
	}
	for _, name := range given.Asked(cfg, c) {
		if name = secrets.Scheme + name; !k.Granted(c, name) {
			names = append(names, name)
		}
	}
	if len(c.Manifest.Requires.Env) == 0 {
		return names
	}
	entry, host := cfg.Extensions.Entries[c.ID], process.Lookup(environ)
	for _, name := range c.Manifest.Requires.Env {
		value, ok := host(name)
		_, stated := cfg.Extensions.Environ(c.ID)[name]
		passed := slices.Contains(entry.EnvPass, name) || slices.Contains(cfg.Extensions.Env.Pass, name) ||
			slices.Contains(entry.EnvDeny, name)
		if ok && !stated && !passed && process.Withholds(name, value) && !k.Granted(c, name) {
			names = append(names, name)
		}
	}
	return names
}

// Permit is called before a start; an error refuses the start. still, unless nil, is called when the process has
// loaded its code; if it fails, the process is not used. A nil Permit permits everything.
type Permit func(context.Context) (still func() error, err error)

// refusal returns err as a refusal of a kind, with the next command.
func refusal(kind protocol.Kind, err error, next string) error {
	e := protocol.Errorf(kind, "%s; %s", protocol.Reason(err), next)
	e.Next = next
	return e
}

// begin calls starts, a method of Consent, and adds the next command to its errors. The next command after a failure
// of still is again, because the agreed files may be back on disk.
func begin(starts func() (func() error, error), id, again string) (func() error, error) {
	still, err := starts()
	if err != nil {
		return nil, refusal(protocol.Untrusted, err, "exthost trust "+id)
	}
	if still == nil {
		return nil, nil
	}
	return func() error {
		if err := still(); err != nil {
			return refusal(protocol.Untrusted, err, again)
		}
		return nil
	}, nil
}

var errOtherPackage = errors.New("exthost.lock states another package by now")

// Extension returns the permit for processes of c. It checks at each start, because the files may have changed since
// the user agreed, or the lock may state another package than the one in dir.
func (r *Rules) Extension(cfg *config.Config, c *discovery.Candidate, dir string) Permit {
	if r.Packages == nil && r.Consent == nil {
		return nil
	}
	return func(context.Context) (still func() error, err error) {
		if r.asks(cfg, c) {
			starts := func() (func() error, error) { return r.Consent.Starts(c) }
			if still, err = begin(starts, c.ID, "exthost restart "+c.ID); err != nil {
				return nil, err
			}
		}
		if r.Packages == nil {
			return still, nil
		}
		switch now, _, err := r.Packages.Verify(c); {
		case err != nil:
			return nil, Refusal(err)
		case now != dir:
			return nil, refusal(protocol.NotReady, errOtherPackage, "exthost reload")
		}
		return still, nil
	}
}

// Configured returns the permit for the processes of t, stated by cfg. It checks at each start, because programs in
// the working directory may have changed since the user agreed. A command that runs no such program needs no permit.
func (r *Rules) Configured(cfg *config.Config, t *manifest.Transport) Permit {
	if r.Consent == nil || len(cfg.Project.Files) == 0 {
		return nil
	}
	return func(context.Context) (func() error, error) {
		if named, err := consent.CommandPrograms(t, cfg.Project.Dir); err == nil && len(named) == 0 {
			return nil, nil
		}
		return begin(func() (func() error, error) { return r.Consent.StartsConfigured(cfg) }, ".", "exthost trust .")
	}
}

// nexter is an error with the next command.
type nexter interface {
	error
	Next() string
}

// Refusal returns err, which refuses a package, with its next command.
func Refusal(err error) error {
	if refused, ok := errors.AsType[nexter](err); ok {
		return refusal(cmp.Or(protocol.KindOf(err), protocol.Untrusted), err, refused.Next())
	}
	return err
}
