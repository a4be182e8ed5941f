package unit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/consent"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/redact"
	"github.com/exthost/exthost/internal/wiretap"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// Env is what all units of a host share.
type Env struct {
	Log         *slog.Logger
	Containment *process.Containment // holds the processes of all units
	StateDir    string               // of the host
	Self        string               // the program that command = "exthost" names; "" searches PATH
	Version     string               // of the host
	Environ     []string             // that children are started from
	StartLazy   bool                 // a destination starts an instance at once, to see whether it can
	Redactor    *redact.Redactor     // masks the secrets of all units
	Tap         *wiretap.Hub
	// Consent decides what of the working directory may run. Nil: all that was found.
	Consent Consent
	// Packages knows where the files of packages are. Nil: no extension runs one.
	Packages Packages
	// SecretsChanged is called when a unit has other secrets than before.
	SecretsChanged func()
	// Command returns the command line that is run in place of an extension's own. Nil:
	// the extension's own.
	Command func(id string, argv []string) []string
}

// Consent says what the user agreed to.
type Consent interface {
	// Allows returns nil when the extension may run as it is on disk now. The error says why it
	// may not.
	Allows(c *discovery.Candidate) error
	// Granted reports whether the extension may have a secret that its manifest asks for.
	Granted(c *discovery.Candidate, name string) bool
}

// Packages says where the files of the packages are that extensions run.
type Packages interface {
	// Verify returns the directory of the files of the package of c, after comparing them with
	// what is locked; "" when c runs no package. The error says why it may not run.
	Verify(c *discovery.Candidate) (dir string, err error)
}

// packageVariable is the environment variable with the directory of an extension's package.
const packageVariable = "EXTHOST_PACKAGE"

// packageOf returns the directory of the package of c, and the environment that tells it.
func (e *Env) packageOf(c *discovery.Candidate, env map[string]string) (string, map[string]string, error) {
	if e.Packages == nil {
		return "", env, nil
	}
	dir, err := e.Packages.Verify(c)
	if err != nil || dir == "" {
		return "", env, err
	}
	if env = maps.Clone(env); env == nil {
		env = map[string]string{}
	}
	env[packageVariable] = dir
	return dir, env, nil
}

// unpacked says why the package of c may not run; nil when it may, or there is none.
func (e *Env) unpacked(c *discovery.Candidate) *protocol.Diagnostic {
	_, _, err := e.packageOf(c, nil)
	if err == nil {
		return nil
	}
	d := &protocol.Diagnostic{Level: protocol.LevelWarn, Code: CodeUntrusted, Extension: c.ID, Path: c.Path, Message: protocol.Reason(err)}
	if refused, ok := errors.AsType[nexter](err); ok {
		d.Hint = refused.Next()
	}
	if kind := protocol.KindOf(err); kind != "" {
		d.Code = string(kind)
	}
	return d
}

// Child returns the environment of a unit's processes: the host's without variables that
// look like secrets, with those that the manifest and the operator state and with the
// host's own.
func (e *Env) Child(cfg *config.Config, s *runtime.Spec, stated map[string]string) ([]string, process.EnvReport) {
	entry := cfg.Extensions.Entries[s.ID]
	cwd := s.Manifest.Transport.Cwd
	if !filepath.IsAbs(cwd) {
		cwd = filepath.Join(s.Dir, cwd)
	}
	set := map[string]string{"PWD": cwd}
	if e.Consent != nil && s.StateDir != "" {
		// A cache of bytecode beside the code says itself which version of the code it is of, and
		// nobody agreed to it: Python reads and writes caches elsewhere.
		set["PYTHONPYCACHEPREFIX"] = filepath.Join(s.StateDir, ".pycache")
	}
	maps.Copy(set, s.Sandbox.Environ(s.StateDir))
	maps.Copy(set, stated)
	maps.Copy(set, cfg.Extensions.Environ(s.ID))
	maps.Copy(set, map[string]string{
		"EXTHOST_EXTENSION_ID":     s.ID,
		"EXTHOST_VERSION":          s.HostVersion,
		"EXTHOST_PROTOCOL_VERSION": strconv.Itoa(protocol.Version),
		"EXTHOST_STATE_DIR":        s.StateDir,
	})
	return process.Environ(e.Environ, process.EnvPolicy{
		Mode: cfg.Extensions.Env.Mode, Pass: slices.Concat(cfg.Extensions.Env.Pass, entry.EnvPass),
		Declared: s.Manifest.Requires.Env, Deny: entry.EnvDeny, Set: set,
	})
}

// Codes of diagnostics about extensions that the user has not agreed to run as they are.
const (
	CodeUntrusted = string(protocol.Untrusted) // nobody has agreed to run it
	CodeRevoked   = "trust_revoked"            // the user no longer agrees to run it
)

// untrusted says why c may not run for want of the user's consent; nil when it may.
func (e *Env) untrusted(cfg *config.Config, c *discovery.Candidate) *protocol.Diagnostic {
	d := &protocol.Diagnostic{Level: protocol.LevelWarn, Code: CodeUntrusted, Extension: c.ID, Path: c.Path}
	if err := e.allows(cfg, c); err != nil {
		d.Message, d.Hint = protocol.Reason(err), "exthost trust "+c.ID
		if _, revoked := errors.AsType[consent.Revoked](err); revoked {
			d.Code = CodeRevoked
		}
		return d
	}
	if names := Ungranted(e.Consent, e.Environ, cfg, c); names != nil {
		d.Message, d.Hint = "it asks for secrets that it was not granted: "+strings.Join(names, ", "), "exthost grant "+c.ID+" "+strings.Join(names, " ")
		return d
	}
	return nil
}

// allows asks for consent where the working directory is why c was found.
func (e *Env) allows(cfg *config.Config, c *discovery.Candidate) error {
	if e.Consent == nil || !cfg.Project.SearchPaths {
		return nil
	}
	return e.Consent.Allows(c)
}

// Ungranted returns the variables of environ that c asks for, that look like secrets and that
// nobody has granted c.
func Ungranted(k Consent, environ []string, cfg *config.Config, c *discovery.Candidate) (names []string) {
	if k == nil || len(c.Manifest.Requires.Env) == 0 {
		return nil
	}
	entry, host := cfg.Extensions.Entries[c.ID], process.Lookup(environ)
	for _, name := range c.Manifest.Requires.Env {
		value, ok := host(name)
		_, stated := cfg.Extensions.Environ(c.ID)[name]
		passed := slices.Contains(entry.EnvPass, name) || slices.Contains(cfg.Extensions.Env.Pass, name) || slices.Contains(entry.EnvDeny, name)
		if ok && !stated && !passed && process.Withholds(name, value) && !k.Granted(c, name) {
			names = append(names, name)
		}
	}
	return names
}

// consented wraps the decision about a start: what is on disk may differ by now from what the
// user agreed to, and the package from that in dir.
func (e *Env) consented(cfg *config.Config, c *discovery.Candidate, dir string, admit func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := e.allows(cfg, c); err != nil {
			return protocol.Errorf(protocol.Untrusted, "%s; exthost trust %s", protocol.Reason(err), c.ID)
		}
		if e.Packages != nil {
			switch now, err := e.Packages.Verify(c); {
			case err != nil:
				return refusal(err)
			case now != dir:
				return protocol.Errorf(protocol.NotReady, "exthost.lock states another package by now; exthost reload")
			}
		}
		if admit == nil {
			return nil
		}
		return admit(ctx)
	}
}

// nexter is an error that knows the next command.
type nexter interface {
	error
	Next() string
}

// refusal words why the package of an extension does not start.
func refusal(err error) error {
	if refused, ok := errors.AsType[nexter](err); ok {
		return protocol.Errorf(cmp.Or(protocol.KindOf(err), protocol.Untrusted), "%s; %s", protocol.Reason(err), refused.Next())
	}
	return err
}
