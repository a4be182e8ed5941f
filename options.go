package exthost

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/proc/program"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// Options are the part of a host that comes from code; the part that comes from files is
// [config.Config]. The zero value is usable.
type Options struct {
	// Logger receives the log of the host and of its extensions. Default:
	// slog.Default().
	Logger *slog.Logger
	// Version is the host's version, which min_agent_version is compared with and
	// extensions are told. Default: [Version].
	Version string
	// StateDir is where extensions keep their private state. Default: exthost below
	// $XDG_STATE_HOME or ~/.local/state, one directory for each working directory.
	StateDir string
	// Self is the program that command = "exthost" names. Default: this executable if it
	// is the exthost program, else the exthost on PATH. It is never an embedding program,
	// which would start itself.
	Self string
	// Environ is the environment that extensions are started from. Default: os.Environ().
	Environ []string
	// Policies are the embedding program's own policies.
	Policies []governance.Member
	// PolicyKinds make the policies of the configuration whose code the library does not
	// link by itself: `builtin: cel` and `kind: grpc`. Default: neither.
	PolicyKinds PolicyKinds
	// Hooks are the embedding program's own hook handlers.
	Hooks []hooks.Handler
	// Consent decides what of the working directory may run: extensions in search paths that
	// no flag, no variable and neither the user's nor the system's files name, and secrets that
	// manifests ask for. Default: the program chose the directory, and all of it may run.
	Consent Consent
	// Packages knows the files of the packages that extensions run. Default: an extension that
	// runs one has to state an absolute path.
	Packages Packages
	// Secrets returns the store of the secrets that configurations and manifests refer to as
	// secret://NAME. It is called for every reload, with what the configuration states, and may
	// ignore that. Default: what is given a secret does not run.
	Secrets func(*config.Config) Secrets
	// Logins returns what the user has signed in to. It is called for every reload, as Secrets is.
	// Default: a remote server that wants a login gets none.
	Logins func(*config.Config) Logins
	// Start selects the extensions that are started; the others are listed and stay
	// stopped. Default: all.
	Start func(id string) bool
	// Observe takes each decision of a policy, on the goroutine that waits for the
	// decision. It must return at once. Default: nobody is told.
	Observe func(governance.Observation)
	// Reread reads the configuration again for a reload. Its error leaves everything as it
	// is. Default: the configuration stays the one that the host was opened with.
	Reread func() (*config.Config, error)
	// Disable writes into the configuration, which Reread reads, that an extension is
	// disabled or is not. Many goroutines may call it at once. Default: [Admin.Enable] and
	// [Admin.Disable] fail.
	Disable func(id string, disabled bool) error
	// OnReload takes the outcome of every reload, on the goroutine that carried it out. It
	// must return soon and must not close the host. Default: nobody is told.
	OnReload func(Reloaded)
	// Tracer makes the spans of calls for a collector of traces. The program closes it, after the
	// host. Default: none are made, and a trace that a caller states is passed on as it is.
	Tracer Tracer
	// Cluster carries calls to other hosts and theirs to this one: a *cluster.Node. Close closes it.
	// If it is a quota.Source as well, policies of scope cluster count with it.
	// Default: the host is in no cluster.
	Cluster peers.Cluster
	// Services connects to extensions of transport nats: services.New of package cluster/services.
	// Default: they do not run, and a diagnostic says so.
	Services Services
	// Mode is for tools that look at extensions or try them. Default: the host runs.
	Mode Mode
}

// Consent says what the user of a program agreed to. Its methods may be called by many
// goroutines at once.
type Consent interface {
	// Allows is asked when an extension is found. It returns nil when the extension may run as it
	// is on disk now; its error, of kind untrusted, says why it may not.
	Allows(c *discovery.Candidate) error
	// Starts is asked the same before each start of a process of it, its commands and hooks among
	// them. still is called when the process has loaded its code: its error, of kind untrusted,
	// refuses what the process says, because that may be another code than what was allowed. Nil:
	// there is nothing to look at again.
	Starts(c *discovery.Candidate) (still func() error, err error)
	// StartsConfigured is Starts for a process of a hook, a policy or a destination of a
	// configuration that files of the working directory are part of: it is about the programs in
	// that directory that the configuration names.
	StartsConfigured(cfg *config.Config) (still func() error, err error)
	// Granted reports whether an extension may have a variable of the host that its manifest
	// requires and that looks like a secret.
	Granted(c *discovery.Candidate, name string) bool
}

// Packages says where the files of the packages are that extensions run. It may be called by
// many goroutines at once.
type Packages interface {
	// Verify is asked when an extension is found and before each start of its process. It returns
	// the directory of the files of the package that the extension runs, which its manifest
	// refers to as ${EXTHOST_PACKAGE}; "" when it runs none. beside are the files of data in
	// that directory that its program has written, by their paths there. The error says why the
	// package must not run: it is not what is locked, or not on this machine.
	Verify(c *discovery.Candidate) (dir string, beside []string, err error)
	// Tools returns the hashes that are locked of the descriptors of the tools of an extension, by
	// its own names of them. A tool with another descriptor, and one without, is held back until
	// the operator accepts it. Nil: none are locked, and none is held back for that.
	Tools(c *discovery.Candidate) map[string]string
}

// Secrets is a store of secrets. Its methods may be called by many goroutines at once.
type Secrets = interface {
	// Lookup returns the value of a secret. It is asked before each start of a process and each
	// connection that is given the secret, and must return when ctx ends. The error says why the
	// secret cannot be had and what to do next; it never quotes a value.
	Lookup(ctx context.Context, name string) (string, error)
	// Check is asked when an extension or a destination is found. It returns why a secret cannot be
	// had, as far as that is known without asking a user or another program; nil when it may be there.
	Check(name string) error
}

// What Options are made of that the parts of a host declare.
type (
	Logins       = unit.Logins           // what the user has signed in to
	LoginPlace   = unit.LoginPlace       // what is signed in, and where
	Tracer       = dispatch.Tracer       // makes the spans of calls
	Span         = dispatch.Span         // the span of one call
	TraceContext = dispatch.TraceContext // a place in a trace as messages state it
	Services     = runtime.Services      // connects to extensions that are services on NATS
)

// Mode changes how a host runs, for tools that look at extensions or try them.
type Mode struct {
	// Inspect opens the host to look at it: the host makes no calls, and writes no audit
	// log, results and pins. It may be open beside the host that runs.
	Inspect bool
	// StartLazy also starts extensions and destinations that start on demand, to see whether
	// they can.
	StartLazy bool
	// Background makes [Open] return once the extensions are starting; [Host.Ready] waits
	// for them. Default: Open returns when each has started or failed.
	Background bool
	// Command returns the command line that is run in place of the command line of an
	// extension of transport stdio. Default: the extension's own.
	Command func(id string, argv []string) []string
}

// PolicyKinds make policies whose code the library does not link by itself, because it is
// as large as the rest of the library. Without an entry, [Open] and a reload refuse a
// configuration that states such a policy: the error is config_invalid and names the policy
// and the field to set. All other policies need no entry.
type PolicyKinds struct {
	// CEL makes a policy of `builtin: cel`: celpolicy.New. Set CheckCEL of
	// config.LoadOptions too, so that an error in an expression names its file and line.
	CEL func(governance.Spec) (governance.Policy, error)
	// GRPC makes one run of the process of a policy of `kind: grpc`:
	// grpcpolicy.NewInstance.
	GRPC func(governance.Spec, runtime.Spec) PolicyInstance
}

// PolicyInstance is one run of the process of a policy.
type PolicyInstance = interface {
	runtime.Instance
	governance.Policy
}

func (o Options) withDefaults() (Options, error) {
	if err := o.checkHooks(); err != nil {
		return o, err
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Version = cmp.Or(o.Version, Version())
	o.Self = cmp.Or(o.Self, program.Own())
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if o.StateDir == "" {
		dir, err := DefaultStateDir()
		if err != nil {
			return o, protocol.Errorf(protocol.ConfigInvalid,
				"no place for the state of extensions: %w; set XDG_STATE_HOME", err)
		}
		o.StateDir = dir
	}
	if o.Mode.Inspect {
		o.Cluster = nil
	}
	return o, nil
}

// toStart returns those of list that are started with the host.
func (o Options) toStart(list []unit.Runner) []unit.Runner {
	return slices.DeleteFunc(list, func(u unit.Runner) bool {
		return !u.NeedsStart() && !o.Mode.StartLazy || o.Start != nil && !o.Start(u.Base().ID())
	})
}

// checkHooks refuses handlers of the embedding program with an unknown point or an
// unreadable matcher.
func (o Options) checkHooks() error {
	for _, handler := range o.Hooks {
		switch err := hooks.CheckMatcher(handler.Matcher); {
		case err != nil:
			return protocol.Errorf(protocol.ConfigInvalid, "hook %s: matcher: %w", handler.Name, err)
		case !slices.Contains(hooks.Points(), handler.Point):
			return protocol.Errorf(protocol.ConfigInvalid, "hook %s: %q is not a hook point", handler.Name,
				handler.Point)
		}
	}
	return nil
}

// DefaultStateDir returns the state directory of a host that is opened in the working
// directory without another. It is the same for every name of the working directory.
func DefaultStateDir() (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(home, ".local", "state")
	}
	wd, err := os.Getwd()
	if err == nil {
		wd, err = filepath.EvalSymlinks(wd)
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(wd)) // two checkouts of one name are two projects
	return filepath.Join(base, "exthost", filepath.Base(wd)+"-"+hex.EncodeToString(sum[:4])), nil
}

// release is the version of this source tree.
const release = "0.1.0"

// Version returns the version of this build: that of the module if the module was
// installed, else that of the source tree.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Path == "github.com/exthost/exthost" {
		if v, ok := strings.CutPrefix(info.Main.Version, "v"); ok && !strings.HasPrefix(v, "0.0.0-") {
			return v
		}
	}
	return release
}
