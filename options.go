package exthost

import (
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/host/stateformat"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
)

// Options are the part of a host's configuration that comes from code; [config.Config] comes from files. The zero
// value is usable.
type Options struct {
	// Logger receives the log of the host and of its extensions. Default:
	// slog.Default().
	Logger *slog.Logger
	// Version is the host's version: it is compared with min_agent_version and told to extensions. Default:
	// [Version].
	Version string
	// StateDir is where extensions keep their private state. Default: exthost below
	// $XDG_STATE_HOME or ~/.local/state, one directory for each working directory.
	StateDir string
	// Self is the program that command = "exthost" names. Default: this executable if it
	// is the exthost program, else the exthost on PATH. It is never an embedding program,
	// which would start itself.
	Self string
	// Environ is the environment from which extensions get their variables. Default: os.Environ().
	Environ []string
	// Policies are the embedding program's own policies. Each needs a name, a category and a Policy. A call fails when
	// one of them cannot decide, unless its Spec.Required is new(false).
	Policies []governance.Member
	// PolicyKinds make the policies of the configuration that need code the library does not link: `builtin: cel`
	// and `kind: grpc`. Default: neither.
	PolicyKinds PolicyKinds
	// Hooks are the embedding program's own hook handlers. Each needs a point and a Run.
	Hooks []hooks.Handler
	// Consent decides about extensions that only the working directory brings along: their search path is in no
	// flag, no variable and no file of the user or the system. It decides which of them may run, and which secrets
	// they get. Default: everything may run.
	Consent Consent
	// Packages finds the files of the packages that extensions run. Default: an extension with a package needs an
	// absolute path.
	Packages Packages
	// Secrets returns the store of the secrets that configurations and manifests refer to as secret://NAME. It is
	// called at every reload with the new configuration, which it need not use. Default: units that refer to a
	// secret do not run.
	Secrets func(*config.Config) Secrets
	// Logins returns the user's logins at remote servers. It is called at every reload, as Secrets is. Default: a
	// remote server gets no login.
	Logins func(*config.Config) runtime.Logins
	// Start selects the extensions that are started; the others are listed and stay stopped. Default: all.
	Start func(id string) bool
	// Observe receives each decision of a policy, on the goroutine that waits for the decision. It must not
	// block. Default: none.
	Observe func(governance.Observation)
	// Reread reads the configuration again for a reload. If it fails, nothing changes. Default: the configuration
	// that the host was opened with stays.
	Reread func() (*config.Config, error)
	// Disable adds or removes an extension in extensions.disabled of the configuration that Reread reads. It must
	// be safe for concurrent use. Default: [Admin.Enable] and [Admin.Disable] fail.
	Disable func(id string, disabled bool) error
	// OnReload receives the outcome of every reload, on the goroutine that carried it out. It must return soon
	// and must not close the host. Default: none.
	OnReload func(Reloaded)
	// Tracer makes the spans of calls for a trace collector. The program closes it after the host. Default: no
	// spans; a trace stated by a caller is passed on as it is.
	Tracer Tracer
	// Cluster carries calls to and from other hosts: a *cluster.Node. [Host.Close] closes it. If it is also a
	// quota.Source, policies of scope cluster count calls with it. Default: no cluster.
	Cluster peers.Cluster
	// Services connects to extensions of transport nats: services.New of package cluster/services. Default: such
	// extensions do not run, and a diagnostic says so.
	Services runtime.Services
	// Mode is for tools that inspect or try extensions. Default: the host runs.
	Mode Mode
}

// Consent is what the user of a program agreed to. It must be safe for concurrent use.
type Consent interface {
	// Allows is called when an extension is found. It returns nil if the extension may run as it is on disk now;
	// else an error of kind untrusted with the reason.
	Allows(c *discovery.Candidate) error
	// Starts does the same before each start of a process of the extension, including its commands and hooks. The
	// host calls still, unless nil, when the process has loaded its code. An error of kind untrusted means that
	// the code may differ from what was allowed; the host then does not use the process.
	Starts(c *discovery.Candidate) (still func() error, err error)
	// StartsConfigured is Starts for the process of a hook, a policy or a destination whose configuration comes
	// in part from files of the working directory. It checks the programs in that directory that the
	// configuration names.
	StartsConfigured(cfg *config.Config) (still func() error, err error)
	// Granted reports whether an extension may have a variable of the host that its manifest requires and that
	// looks like a secret.
	Granted(c *discovery.Candidate, name string) bool
}

// Packages locates the files of packages that extensions run. It must be safe for concurrent use.
type Packages interface {
	// Verify is called when an extension is found and before each start of its process. It returns the directory
	// of the extension's package, to which the manifest refers as ${EXTHOST_PACKAGE}; "" if the extension runs no
	// package. beside lists data files in that directory that the program has written, as relative paths. The
	// error says why the package must not run: it differs from the lock file or is not on this machine.
	Verify(c *discovery.Candidate) (dir string, beside []string, err error)
	// Tools returns the locked hashes of tool descriptors by the extension's own tool names. A tool with another
	// descriptor or without a hash is held back until the operator accepts it. Nil: no tools are locked, and none
	// is held back for that.
	Tools(c *discovery.Candidate) map[string]string
}

// Secrets is a store of secrets. It must be safe for concurrent use.
type Secrets = interface {
	// Lookup returns the value of a secret. It is called before each start of a process and each connection that
	// uses the secret, and must return when ctx ends. The error says why the secret is unavailable and what to do
	// next; it never quotes a value.
	Lookup(ctx context.Context, name string) (string, error)
	// Check is called when an extension or a destination is found. It returns why a secret is unavailable, as far
	// as that is known without asking a user or another program; nil if it may exist.
	Check(name string) error
}

// Tracer makes the spans of calls. Its methods are called concurrently and must not block.
type Tracer interface {
	// Begin begins the span of a call. parent is as stated by the caller. It is zero if none was stated, and for a
	// part of another call: then ctx has the span of that call. The returned context is used for parts of the call.
	Begin(ctx context.Context, parent protocol.TraceContext, at time.Time) (context.Context, Span)
	// Report returns the export status of the spans.
	Report() *status.Tracing
}

// Span is the span of one call. Ask is called concurrently, the other methods are not.
type Span = interface {
	// Context returns the call's position in its trace.
	Context() protocol.TraceContext
	// Send begins the span of an instance that gets the call, and returns the position that the instance is told.
	// A call may go to several instances, one after another.
	Send(at time.Time) protocol.TraceContext
	// Ask begins the span of an instance's request to the caller. The returned function ends it.
	Ask(at time.Time, method string) (end func(at time.Time, o status.Outcome))
	// End ends the spans at that time. The stages of e are the parts of the call; its instance stages match the
	// spans of Send, in order. End must not keep e.
	End(at time.Time, e *status.CallEvent)
}

// Mode changes how a host runs, for tools that inspect or try extensions.
type Mode struct {
	// Inspect opens the host for reading only: it makes no calls and writes no audit log, results or pins. It may
	// be open beside the running host.
	Inspect bool
	// StartLazy also starts extensions and destinations that normally start on demand, to see whether they can.
	StartLazy bool
	// Background makes [Open] return as soon as the extensions are starting; [Host.Ready] waits for them.
	// Default: Open returns when each has started or failed.
	Background bool
	// Command replaces the command line of an extension of transport stdio. Default: the extension's own.
	Command func(id string, argv []string) []string
	// Built reports whether what Reread has built is of the files that the host has read since. A reload that finds it
	// out of date begins anew, so that one save makes one change. Default: it always is.
	Built func() bool
}

// PolicyKinds make policies whose code the library does not link, because it is as large as the rest of the
// library. Without an entry, [Open] and reloads refuse a configuration with such a policy: config_invalid names
// the policy and the field to set.
type PolicyKinds struct {
	// CEL makes a policy of `builtin: cel`: celpolicy.New. Set CheckCEL of config.LoadOptions too: errors in
	// expressions then name their file and line.
	CEL func(governance.Spec) (governance.Policy, error)
	// GRPC makes one run of the process of a policy of `kind: grpc`:
	// grpcpolicy.NewInstance.
	GRPC func(governance.Spec, runtime.Spec) PolicyInstance
}

// PolicyInstance is one run of a policy's process.
type PolicyInstance = interface {
	runtime.Instance
	governance.Policy
}

func (o Options) withDefaults() (Options, error) {
	if problems := slices.Concat(o.checkPolicies(), o.checkHooks()); problems != nil {
		return o, protocol.Errorf(protocol.ConfigInvalid, "%s", strings.Join(problems, "\n"))
	}
	if reread := o.Reread; reread != nil {
		o.Reread = func() (*config.Config, error) {
			cfg, err := reread()
			if cfg == nil && err == nil {
				err = protocol.Errorf(protocol.ConfigInvalid,
					"Options.Reread returned neither a configuration nor an error")
			}
			return cfg, err
		}
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Version = cmp.Or(o.Version, Version())
	o.Self = cmp.Or(o.Self, ownProgram())
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

// claimState returns an error if the state directory is of a newer version. A host that may write there states its
// format.
func (o Options) claimState() error {
	if o.Mode.Inspect {
		return stateformat.Check(o.StateDir)
	}
	return stateformat.Claim(o.StateDir, o.Version)
}

// toStart returns the units of list that start with the host.
func (o Options) toStart(list []unit.Runner) []unit.Runner {
	return slices.DeleteFunc(list, func(u unit.Runner) bool {
		return !u.NeedsStart() && !o.Mode.StartLazy || o.Start != nil && !o.Start(u.Base().ID())
	})
}

// checkPolicies returns what keeps policies of the embedding program from running.
func (o Options) checkPolicies() (problems []string) {
	for i, m := range o.Policies {
		at := fmt.Sprintf("Options.Policies[%d] %q", i, m.Spec.Name)
		if m.Policy == nil {
			problems = append(problems, at+": it has no Policy, which would decide")
		}
		m.Spec.Normalize()
		if m.Spec.Kind != governance.KindBuiltin {
			problems = append(problems, fmt.Sprintf("%s: kind %s runs a process of its own; leave Kind out for a "+
				"Policy in Go", at, m.Spec.Kind))
			continue
		}
		for _, flow := range m.Spec.Flows {
			if !slices.Contains(flow.Values(), string(flow)) {
				problems = append(problems, fmt.Sprintf("%s: %q is no flow: one of %s", at, flow,
					strings.Join(flow.Values(), ", ")))
			}
		}
		for _, p := range m.Spec.Validate() {
			problem := at + ": " + p.Message
			if p.Hint != "" {
				problem += ": " + p.Hint
			}
			problems = append(problems, problem)
		}
	}
	return problems
}

// checkHooks returns what keeps handlers of the embedding program from running.
func (o Options) checkHooks() (problems []string) {
	for i, h := range o.Hooks {
		if err := h.Check(); err != nil {
			problems = append(problems, fmt.Sprintf("Options.Hooks[%d] %q: %v", i, h.Name, err))
		}
	}
	return problems
}

// DefaultStateDir returns the default state directory for the working directory, the same for every path that leads
// to that directory.
func DefaultStateDir() (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("there is no directory for the host's state: %w; set it, or XDG_STATE_HOME", err)
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
	sum := sha256.Sum256([]byte(wd)) // two checkouts of the same name are two projects
	return filepath.Join(base, "exthost", filepath.Base(wd)+"-"+hex.EncodeToString(sum[:4])), nil
}

// release is the version of this source tree.
const release = "0.1.0"

// Version returns the version of this build: that of the module if the program was installed as a module, else that
// of the source tree.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Path == "github.com/exthost/exthost" {
		if v, ok := strings.CutPrefix(info.Main.Version, "v"); ok && !strings.HasPrefix(v, "0.0.0-") {
			return v
		}
	}
	return release
}

// programPath is the package of the exthost program.
const programPath = "github.com/exthost/exthost/cmd/exthost"

// ownProgram returns this executable if it is the exthost program, else "".
func ownProgram() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || strings.TrimSuffix(info.Path, ".test") != programPath {
		return ""
	}
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
}

// guardianProgram returns self if it can serve as guardian, that is if it is the exthost program; else "".
func guardianProgram(self string) string {
	if self == "" || self == ownProgram() {
		return self
	}
	if info, err := buildinfo.ReadFile(self); err != nil || info.Path != programPath {
		return ""
	}
	return self
}
