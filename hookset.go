package exthost

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/stats"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// hookSets builds the hooks of each snapshot and runs them for agent loops.
type hookSets struct {
	own       []hooks.Handler // of the embedding program
	env       *unit.Env
	counters  *stats.Counters
	approvals governance.Approver
	commands  *hooks.Runner
	events    *dispatch.HookEvents // outside of calls
}

// runHooks checks e and runs it in s with run, a method of hooks.Set.
func runHooks(ctx context.Context, s *snapshot.Snapshot, e *hooks.Event, run func(*hooks.Set, context.Context,
	*hooks.Event) (hooks.Outcome, error)) (hooks.Outcome, error) {
	if !slices.Contains(hooks.Points(), e.Point) {
		return hooks.Outcome{}, protocol.Errorf(protocol.InvalidArguments, "%q is not a hook point", e.Point)
	}
	if len(e.Payload) == 0 {
		e.Payload = []byte("{}")
	}
	if err := rawjson.Check(e.Payload); err != nil || e.Payload[rawjson.SkipSpace(e.Payload, 0)] != '{' {
		return hooks.Outcome{}, protocol.Errorf(protocol.InvalidArguments, "the payload of %s is not a JSON object",
			e.Point)
	}
	return run(s.Hooks, ctx, e)
}

// of returns the hooks of s: the embedding program's, then the configuration's, then the extensions' in the order
// of discovery.
func (k *hookSets) of(s *snapshot.Snapshot) *hooks.Set {
	all := slices.Concat(k.own, s.Plan.Hooks)
	for x := range s.Ordered {
		sees := s.Config.Extensions.Entries[x.ID()].Hooks
		if sees == config.HooksNone {
			continue
		}
		for _, handler := range slices.Concat(x.Commands, dispatch.ExtensionHooks(s, x)) {
			handler.Own = sees != config.HooksAll
			all = append(all, handler)
		}
	}
	return k.set(all)
}

func (k *hookSets) set(all []hooks.Handler) *hooks.Set {
	return hooks.NewSet(hooks.Options{Observe: k.ran, Approver: dispatch.Approver{To: k.approvals}}, all...)
}

// ran counts one run of a handler and logs its failure.
func (k *hookSets) ran(e *hooks.Event, s hooks.Step) {
	k.counters.Hook(e, s)
	if s.Err == nil {
		return
	}
	log := k.env.Log
	if s.Extension != "" {
		log = log.With("extension", s.Extension)
	}
	log.Warn("hook failed", "hook", s.Handler, "event", string(e.Point), "tool", e.Tool, "took", s.Took, "error", s.Err)
}

// operator resolves the hook commands of cfg.
func (k *hookSets) operator(cfg *config.Config) ([]hooks.Handler, error) {
	dir, err := os.Getwd()
	if err != nil || len(cfg.Hooks) == 0 {
		return nil, err
	}
	set := map[string]string{"PWD": dir, "CLAUDE_PROJECT_DIR": dir, "EXTHOST_VERSION": k.env.Version}
	k.env.KeepCaches(set, filepath.Join(k.env.StateDir, ".hooks"))
	env, _ := process.Environ(k.env.Environ,
		process.EnvPolicy{Mode: cfg.Extensions.Env.Mode, Pass: cfg.Extensions.Env.Pass, Set: set})
	all := make([]hooks.Handler, len(cfg.Hooks))
	for i := range cfg.Hooks {
		spec := &cfg.Hooks[i]
		all[i], err = k.commands.Handler(hooks.Command{
			Handler: unit.HookHandler(spec, i),
			Argv:    spec.Command,
			Dir:     dir,
			Env:     env,
			Permit:  k.env.Permits.Configured(cfg, &manifest.Transport{Cmd: spec.Command}),
		})
		if err != nil {
			return nil, protocol.Errorf(protocol.ConfigInvalid, "hooks[%d], of %s: %w", i, spec.Event, err)
		}
	}
	return all, nil
}
