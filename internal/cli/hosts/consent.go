package hosts

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/authoring/bundled"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// ThisDirectory stands for the configuration of the working directory in commands that take ids of extensions.
const ThisDirectory = "."

// TrustsAll explains extensions.trust: off.
const TrustsAll = "extensions.trust is off: whatever this directory holds runs, without a question"

// Consent returns what the user trusts to run in the working directory; nil if extensions.trust is off, so that
// everything may run.
func Consent(cfg *config.Config) (*consent.Consent, error) {
	if cfg.Extensions.Trust == config.TrustOff {
		return nil, nil
	}
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return nil, err
	}
	l, err := Packages(cfg)
	if err != nil {
		return nil, err
	}
	k := &consent.Consent{
		Store:   consent.NewStore(filepath.Join(filepath.Dir(state), "trust")),
		Bundled: bundled.Is,
		Package: l.Tree,
		Project: cfg.Project.Dir,
		Stated:  func(id string) consent.Stated { return consent.StatedBy(cfg, id) },
	}
	if cfg.Extensions.Trust == config.TrustLock {
		f, err := lock.Read(cfg.Project.Dir)
		if err != nil {
			return nil, &console.Error{
				Code: console.ExitInvalid,
				Text: err.Error(),
				Hint: "mend it, or take it from the repository again",
			}
		}
		k.LockedConfiguration = func(files consent.Files) bool {
			return f.Configuration == files.Digest() || f.Configuration == "" && len(files) == 0
		}
		k.Locked = func(c *discovery.Candidate, files consent.Files) error { return lockedSo(f, c, files) }
	}
	return k, nil
}

// Lock writes what may run in the working directory into the lock file there: the configuration, and those extensions
// in found that are trusted. It keeps the other fields of a package's entry.
func Lock(k *consent.Consent, cfg *config.Config, found []discovery.Candidate) ([]string, error) {
	f, unlock, err := lock.Edit(cfg.Project.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, err := Configuration(k, cfg)
	if err != nil {
		return nil, err
	}
	if f.Configuration = ""; v != nil && v.Trusted() {
		f.Configuration = v.Files.Digest()
	}
	var ids []string
	for i := range found {
		c := &found[i]
		v, err := k.Extension(c)
		if err != nil {
			return nil, err
		}
		if id := cmp.Or(c.Owner, c.ID); v.Trusted() && !v.Bundled {
			f.Extensions[id], ids = approved(f.Extensions[id], c, v.Files), append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), f.Write(cfg.Project.Dir)
}

// approved returns the entry of an extension whose manifest, command lines and files the user trusts.
func approved(e lock.Entry, c *discovery.Candidate, files consent.Files) lock.Entry {
	before := e
	e.Manifest = "sha256:" + files[filepath.Base(c.Path)].Sum
	e.Files = files.Digest()
	e.Command = lock.CommandSum(cmp.Or(c.OwnedBy, c.Manifest))
	if e.Files != before.Files || e.Manifest != before.Manifest || e.Command != before.Command {
		e.Approved, e.ApprovedBy = time.Now().UTC().Format(time.RFC3339), Operator()
	}
	return e
}

// LockAgreed writes the manifest of c, an extension that runs a package, into the lock file of dir. files are those
// that the user agreed to.
func LockAgreed(dir string, c *discovery.Candidate, files consent.Files) error {
	f, unlock, err := lock.Edit(dir)
	if err != nil {
		return err
	}
	defer unlock()
	id := cmp.Or(c.Owner, c.ID)
	e, ok := f.Lookup(id)
	if !ok { // the package was just removed
		return nil
	}
	f.Extensions[id] = approved(e, c, files)
	return f.Write(dir)
}

// lockedSo compares an extension with the lock file of its directory.
func lockedSo(f *lock.File, c *discovery.Candidate, files consent.Files) error {
	id := cmp.Or(c.Owner, c.ID)
	e, ok := f.Lookup(id)
	switch {
	case !ok:
		return protocol.Errorf(protocol.Untrusted,
			"%s does not name %s; exthost trust --lock %s writes it there, where you agree to it", lock.FileName,
			id, id)
	case e.Files != files.Digest():
		return protocol.Errorf(protocol.Untrusted,
			"its files of code are not those of %s; exthost trust --lock %s changes that, where you agree to them",
			lock.FileName, id)
	}
	return nil
}

// Configuration compares the configuration files of the working directory, and the programs there that these files
// name, with what the user trusts. It returns nil if there are no such files.
func Configuration(k *consent.Consent, cfg *config.Config) (*consent.Verdict, error) {
	if k == nil || cfg.Project.Files == nil || len(cfg.Project.Files) == 0 && k.LockedConfiguration == nil {
		return nil, nil
	}
	return k.Configuration(cfg)
}

// LoadTrusted is [Load] for a command that acts on the configuration. If the user does not trust the configuration of
// the working directory, the error has [console.ExitDenied].
func LoadTrusted(c *console.Console, flags ...config.Flag) (*config.Config, *config.Origins, error) {
	cfg, origins, err := Load(c, flags...)
	if err != nil {
		return nil, nil, err
	}
	_, err = Trusted(cfg)
	return cfg, origins, err
}

// Trusted returns the consent for a host that starts something of cfg; nil if everything may run.
func Trusted(cfg *config.Config) (exthost.Consent, error) {
	k, err := Consent(cfg)
	if err != nil || k == nil {
		return nil, err
	}
	v, err := Configuration(k, cfg)
	switch {
	case err != nil:
		return nil, err
	case v == nil || v.Trusted():
		return k, nil
	case k.Locked != nil:
		return nil, &console.Error{
			Code: console.ExitDenied,
			Text: "the configuration of " + console.Safe(cfg.Project.Dir) + " is not what " + lock.FileName +
				" says",
			Hint: "exthost trust . --lock, where you agree to it; or --no-project-config, which leaves it out",
		}
	}
	why := "nobody has agreed yet to what it makes this program run"
	if v.Record.Revoked {
		why = "the agreement was revoked"
	} else if v.Record.Trusted != nil {
		why = "it changed since it was trusted: " + consent.Some(v.Changes)
	}
	return nil, &console.Error{
		Code:  console.ExitDenied,
		Text:  "the configuration of " + console.Safe(cfg.Project.Dir) + " is not trusted: " + console.Safe(why),
		Hint:  "exthost trust, which shows what it runs; or --no-project-config, which leaves it out",
		Cause: NotTrusted{},
	}
}

// NotTrusted is the cause of an error that the user can resolve by trusting what is in the working directory.
type NotTrusted struct{}

// Error implements [error].
func (NotTrusted) Error() string { return "the user has to agree: exthost trust" }

// SetListed is [config.SetListed]. If the configuration was trusted, or did not exist, the changed one is trusted too:
// the user made the change. Nothing is changed if that could not be recorded.
func SetListed(c *console.Console, key, id string, listed bool) (config.Edited, error) {
	trusted := ConfigurationTrusted(c)
	if err := canTrust(c); trusted && err != nil {
		return config.Edited{}, fmt.Errorf("nothing was changed, because the change could not be trusted: %w", err)
	}
	e, err := config.SetListed(LoadOptions(c), key, id, listed)
	if err != nil || !e.Changed || !trusted {
		return e, err
	}
	return e, TrustConfiguration(c)
}

// ConfigurationTrusted reports whether the configuration of the working directory is trusted or does not exist.
func ConfigurationTrusted(c *console.Console) bool {
	cfg, err := readValid(c)
	if err != nil || cfg == nil {
		return false
	}
	_, err = Trusted(cfg)
	return err == nil
}

// consentHere returns the configuration of the working directory and what the user trusts there. Both are nil if there
// is no valid configuration, and k alone where nothing needs to be trusted.
func consentHere(c *console.Console) (cfg *config.Config, k *consent.Consent, err error) {
	if cfg, err = readValid(c); err != nil || cfg == nil {
		return nil, nil, err
	}
	k, err = Consent(cfg)
	return cfg, k, err
}

// canTrust returns an error if what the user trusts could not be recorded.
func canTrust(c *console.Console) error {
	_, k, err := consentHere(c)
	if err != nil || k == nil {
		return err
	}
	return k.Store.Writable()
}

// TrustConfiguration records that the user trusts the configuration of the working directory as it is.
func TrustConfiguration(c *console.Console) error {
	cfg, k, err := consentHere(c)
	if err != nil || k == nil {
		return err
	}
	v, err := Configuration(k, cfg)
	if err != nil || v == nil || v.Trusted() {
		return err
	}
	return AcceptConfiguration(k, cfg, v)
}

// AcceptConfiguration records that the user trusts the configuration that v judges.
func AcceptConfiguration(k *consent.Consent, cfg *config.Config, v *consent.Verdict) error {
	return k.Store.TrustConfiguration(v, cfg.Rules())
}

// TrustFolder records that the user trusts the extensions in dir as they are, because the user made them or named dir
// in order to run them. It also grants them the named secrets.
func TrustFolder(ctx context.Context, c *console.Console, dir string, secrets ...string) error {
	cfg, k, err := consentHere(c)
	if err != nil || k == nil {
		return err
	}
	found, err := discovery.Discover(ctx,
		discovery.Options{SearchPaths: []string{dir}, Safe: cfg.Extensions.SafeDirectories})
	if err != nil {
		return err
	}
	var agreed []consent.Trusted
	for i := range found.Candidates {
		v, err := k.Extension(&found.Candidates[i])
		if err != nil {
			return err
		}
		agreed = append(agreed, consent.Trusted{ID: found.Candidates[i].ID, Verdict: v, Secrets: secrets})
	}
	return k.Store.Trust(agreed...)
}

// Directory returns the directory whose extensions a command runs. That is the argument, because naming a directory is
// consent to run it; without one it is the working directory, if the user trusts its extensions.
func Directory(ctx context.Context, c *console.Console, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	cfg, _, err := Load(c)
	if err != nil {
		return "", err
	}
	k, err := Consent(cfg)
	if err != nil || k == nil {
		return ThisDirectory, err
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	found, err := discovery.Discover(ctx,
		discovery.Options{SearchPaths: []string{here}, Safe: cfg.Extensions.SafeDirectories})
	if err != nil {
		return "", err
	}
	for i := range found.Candidates {
		if err := k.Allows(&found.Candidates[i]); err != nil {
			id := console.Safe(found.Candidates[i].ID)
			return "", &console.Error{
				Code: console.ExitDenied,
				Text: fmt.Sprintf("extension %s of this directory is not trusted: %s", id,
					console.Safe(protocol.Reason(err))),
				Hint: "the same command with the directory, ., which agrees to run what it holds",
			}
		}
	}
	return ThisDirectory, nil
}

// Apply prints what the user did. It reloads the host of the working directory, if one runs, so that a change of trust
// or grants takes effect there.
func Apply(ctx context.Context, c *console.Console, cfg *config.Config, did string) error {
	r, err := Find(ctx)
	if err != nil || r.Info.Scope != Scope(c, cfg) { // a host that starts later applies the change anyway
		c.Tell(console.Safe(did))
		return nil
	}
	var change status.Change
	if err := r.Post(ctx, "/api/v1/reload", nil, &change); err != nil {
		return fmt.Errorf("noted, but the running host (pid %d) did not apply it: %w", r.Info.PID, err)
	}
	did += fmt.Sprintf("; the running host (pid %d) has applied it", r.Info.PID)
	for _, section := range change.Restart {
		did += fmt.Sprintf("; %s takes effect when that is started again", section)
	}
	c.Tell(console.Safe(did))
	return nil
}

// Look opens a host that starts nothing and writes nothing, to inspect the files on disk.
func Look(ctx context.Context, c *console.Console, cfg *config.Config) (*exthost.Host, error) {
	return look(ctx, c, cfg, Secrets)
}

// Examine is [Look] for a command that reports what is missing: it looks up every secret.
func Examine(ctx context.Context, c *console.Console, cfg *config.Config) (*exthost.Host, error) {
	return look(ctx, c, cfg, triedSecrets(ctx))
}

func look(ctx context.Context, c *console.Console, cfg *config.Config, secrets func(*config.Config) exthost.Secrets,
) (*exthost.Host, error) {
	var decides exthost.Consent
	k, err := Consent(cfg)
	if err != nil {
		return nil, err
	}
	if k != nil {
		decides = k
	}
	h, err := open(ctx, c, cfg, decides,
		exthost.Options{Secrets: secrets, Start: none, Mode: exthost.Mode{Inspect: true}})
	if err == nil && ctx.Err() != nil { // a lookup that ctx interrupted would be reported as a missing secret
		h.Close()
		return nil, ctx.Err()
	}
	return h, err
}

// none selects no extension.
func none(string) bool { return false }
