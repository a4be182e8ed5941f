// Package hosts finds the running host of a directory, or opens one for a command, and describes the status of a host
// for people.
package hosts

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/cluster/services"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// Load reads the configuration; flags and the flags of c override the files. It prints warnings on stderr; errors are
// one [console.Error] that lists all of them.
func Load(c *console.Console, flags ...config.Flag) (*config.Config, *config.Origins, error) {
	cfg, origins, err := LoadQuietly(c, flags...)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range cfg.Warnings {
		c.Say(d)
	}
	return cfg, origins, nil
}

// LoadQuietly is [Load] without output.
func LoadQuietly(c *console.Console, flags ...config.Flag) (*config.Config, *config.Origins, error) {
	cfg, err := read(c, flags...)
	if refused, ok := errors.AsType[config.Refused](err); ok {
		return nil, nil, invalid(refused)
	}
	if err != nil {
		return nil, nil, err
	}
	return cfg, cfg.Origins, nil
}

// ClientsNow returns the named clients in the configuration files and prints nothing; false if the configuration is
// invalid.
func ClientsNow(c *console.Console, flags ...config.Flag) (named map[string]config.Client, ok bool) {
	cfg, err := read(c, flags...)
	if err != nil {
		return nil, false
	}
	return cfg.Server.Clients, true
}

// read is Load without output. The error for an invalid configuration is a [config.Refused].
func read(c *console.Console, flags ...config.Flag) (*config.Config, error) {
	if len(c.Extensions) > 0 {
		dirs := make([]string, len(c.Extensions))
		for i, dir := range c.Extensions {
			abs, err := filepath.Abs(dir)
			if err != nil {
				return nil, err
			}
			dirs[i] = abs
		}
		flags = append(flags, config.Flag{Name: "--extensions", Key: "extensions.search_paths", Values: dirs})
	}
	if c.LogLevel != "" {
		flags = append(flags, config.Flag{Name: "--log-level", Key: "log.level", Values: []string{c.LogLevel}})
	}
	if c.Trust != "" {
		flags = append(flags, config.Flag{Name: "--trust", Key: "extensions.trust", Values: []string{c.Trust}})
	}
	cfg, err := config.Load(LoadOptions(c, flags...))
	if err == nil {
		if missing := lacking(cfg); missing != nil {
			return nil, config.Refused(missing)
		}
	}
	return cfg, err
}

// readValid is read for commands that do without an invalid configuration: it returns nil for one.
func readValid(c *console.Console) (*config.Config, error) {
	cfg, err := read(c)
	if _, invalid := errors.AsType[config.Refused](err); invalid {
		return nil, nil
	}
	return cfg, err
}

// invalid returns the error for an invalid configuration. Each diagnostic states its own remedy, so the next command is
// the one that checks the corrected file.
func invalid(refused config.Refused) error {
	lines := []string{"the configuration is invalid"}
	for _, d := range refused {
		lines = append(lines, fmt.Sprintf("  %s: %s", d.Level, console.Safe(console.Nearby(d).String())))
	}
	return &console.Error{
		Code:  console.ExitInvalid,
		Text:  strings.Join(lines, "\n"),
		Hint:  "exthost validate, once it is fixed",
		Cause: refused,
	}
}

// Inspect opens a host for a command that changes nothing. It starts only the extensions that start selects; nil
// selects all.
func Inspect(ctx context.Context, c *console.Console, start func(id string) bool) (*exthost.Host, error) {
	cfg, _, err := Load(c)
	if err != nil {
		return nil, err
	}
	return Open(ctx, c, cfg, exthost.Options{Start: start, Mode: exthost.Mode{Inspect: true}})
}

// Open opens a host that logs to stderr only with --log-level, and shows on a terminal which extensions it waits for.
// In the working directory it runs only what the user trusts.
func Open(ctx context.Context, c *console.Console, cfg *config.Config, o exthost.Options) (*exthost.Host, error) {
	k, err := Trusted(cfg)
	if err != nil {
		return nil, err
	}
	return open(ctx, c, cfg, k, o)
}

func open(ctx context.Context, c *console.Console, cfg *config.Config, k exthost.Consent, o exthost.Options,
) (h *exthost.Host, err error) {
	o.Consent = k
	unrecorded := *cfg
	unrecorded.Record = config.Cassette{} // only a serving host records
	cfg = &unrecorded
	if o.Packages == nil {
		if o.Packages, err = Packages(cfg); err != nil {
			return nil, err
		}
	}
	where := cfg.Log
	if o.Mode.Inspect { // a command that only looks writes no log, even if the project's configuration sets a file
		where.File = ""
	}
	log, err := c.QuietLogger(where)
	if err != nil {
		return nil, err
	}
	if o.Secrets == nil {
		o.Secrets = Secrets
	}
	o.Logger, o.PolicyKinds, o.Mode.Background = log, PolicyKinds, true
	o.Logins, o.Services = Logins(c), services.New(cfg.Cluster)
	if h, err = exthost.Open(ctx, cfg, o); err != nil {
		return nil, err
	}
	defer c.Progress(func() string { return Starting(h.Status()) })()
	if err := h.Ready(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// Starting names the extensions that have not started yet; "" if there are none.
func Starting(s status.Status) string {
	var ids []string
	for _, x := range s.Extensions {
		if x.State == string(supervisor.Spawning) {
			ids = append(ids, x.ID)
		}
	}
	if ids == nil {
		return ""
	}
	return fmt.Sprintf("starting %d of %s: %s", len(ids), console.Plural(len(s.Extensions), "extension"),
		strings.Join(ids, ", "))
}

// LoadOptions returns the options with which the program reads its configuration.
func LoadOptions(c *console.Console, flags ...config.Flag) config.LoadOptions {
	return config.LoadOptions{File: c.Config, NoProject: c.NoProject, Flags: flags, CheckCEL: checkCEL}
}

// Owners returns a function that selects the extensions that may own the tool. It selects all if the registered name
// was shortened, because that hides the id.
func Owners(tool string) func(id string) bool {
	return func(id string) bool { return tools.MayOwn(id, tool) }
}

// ForCall returns a function that selects the processes that a call needs: policies, and the extension, or all that may
// own the tool.
func ForCall(extension, tool string) func(id string) bool {
	return func(id string) bool {
		return strings.HasPrefix(id, status.PolicyPrefix) || id == extension || tool != "" && tools.MayOwn(id, tool)
	}
}
