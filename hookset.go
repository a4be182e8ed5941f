package exthost

import (
	"context"
	"os"
	"slices"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/dispatch"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/internal/snapshot"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// RunHooks runs the hooks of e.Point and returns their combined outcome. It is for the
// points that only an agent loop knows: its sessions, its messages, its model's requests
// and answers, and the tools that it is about to offer. e.Payload is an object, nil for an
// empty one, whose members the hooks see and may change; in that of tools_select the member
// tools lists the names of the tools, from which hooks can only remove. The error is that
// of [hooks.Set.Run], rejected when a hook denies, or invalid_arguments.
func (h *Host) RunHooks(ctx context.Context, e hooks.Event) (hooks.Outcome, error) {
	return h.runHooks(ctx, &e, (*hooks.Set).Run)
}

// TestHooks is [Host.RunHooks] for an event of any point that is not happening. The hooks
// really run, with all their effects; their questions are put to nobody. e.Tool, where
// stated, is a registered name, which names the extension as well.
func (a Admin) TestHooks(ctx context.Context, e hooks.Event) (hooks.Outcome, error) {
	if entry, ok := a.h.Tools().Lookup(e.Tool); ok {
		e.Extension, e.OwnName = entry.Extension, entry.Tool
	}
	return a.h.runHooks(ctx, &e, (*hooks.Set).Test)
}

func (h *Host) runHooks(ctx context.Context, e *hooks.Event, run func(*hooks.Set, context.Context, *hooks.Event) (hooks.Outcome, error)) (hooks.Outcome, error) {
	if !slices.Contains(hooks.Points(), e.Point) {
		return hooks.Outcome{}, protocol.Errorf(protocol.InvalidArguments, "%q is not a hook point", e.Point)
	}
	if len(e.Payload) == 0 {
		e.Payload = []byte("{}")
	}
	if err := rawjson.Check(e.Payload); err != nil || e.Payload[rawjson.SkipSpace(e.Payload, 0)] != '{' {
		return hooks.Outcome{}, protocol.Errorf(protocol.InvalidArguments, "the payload of %s is not a JSON object", e.Point)
	}
	s := h.snapshots.Enter()
	defer s.Leave()
	return run(s.Hooks, ctx, e)
}

// Hooks returns every hook handler, by event and in the order in which they run. The
// handlers of an extension that has not started are those that it declares.
func (a Admin) Hooks() []status.Hook {
	all := []status.Hook{}
	for x := range a.h.snapshots.Load().Hooks.Handlers() {
		source := "code"
		switch {
		case x.Extension != "":
			source = "extension " + x.Extension
		case x.Command != nil:
			source = "config"
		}
		all = append(all, status.Hook{Event: string(x.Point), Name: x.Name, Source: source, Priority: x.Priority, Matcher: x.Matcher,
			Own: x.Own, TimeoutMS: x.Timeout.Milliseconds(), OnError: string(x.OnError), Command: x.Command})
	}
	return all
}

// newHooks returns the handlers of s: those of the embedding program, then those of the
// configuration, then those of the extensions in the order of discovery.
func (h *Host) newHooks(s *snapshot.Snapshot) *hooks.Set {
	all := slices.Concat(h.opts.Hooks, s.Plan.Hooks)
	for x := range s.Ordered {
		sees := s.Config.Extensions.Entries[x.ID()].Hooks
		if sees == config.HooksNone {
			continue
		}
		for _, handler := range slices.Concat(x.Commands, dispatch.ExtensionHooks(s, x)) {
			handler.Own = sees == config.HooksOwn
			all = append(all, handler)
		}
	}
	return h.hookSet(all)
}

func (h *Host) hookSet(all []hooks.Handler) *hooks.Set {
	return hooks.NewSet(hooks.Options{Observe: h.hookRan, Approver: dispatch.Approver{To: h.policies.Approvals}}, all...)
}

// hookRan counts one run of a handler, and logs its failure.
func (h *Host) hookRan(e *hooks.Event, s hooks.Step) {
	h.counters.Hook(e, s)
	if s.Err == nil {
		return
	}
	log := h.env.Log
	if s.Extension != "" {
		log = log.With("extension", s.Extension)
	}
	log.Warn("hook failed", "hook", s.Handler, "event", string(e.Point), "tool", e.Tool, "took", s.Took, "error", s.Err)
}

// operatorHooks resolves the commands of the hooks of cfg.
func (h *Host) operatorHooks(cfg *config.Config) ([]hooks.Handler, error) {
	dir, err := os.Getwd()
	if err != nil || len(cfg.Hooks) == 0 {
		return nil, err
	}
	env, _ := process.Environ(h.env.Environ, process.EnvPolicy{Mode: cfg.Extensions.Env.Mode, Pass: cfg.Extensions.Env.Pass,
		Set: map[string]string{"PWD": dir, "CLAUDE_PROJECT_DIR": dir, "EXTHOST_VERSION": h.env.Version}})
	all := make([]hooks.Handler, len(cfg.Hooks))
	for i := range cfg.Hooks {
		spec := &cfg.Hooks[i]
		all[i], err = h.hooks.commands.Handler(hooks.Command{Handler: unit.HookHandler(spec), Argv: spec.Command, Dir: dir, Env: env})
		if err != nil {
			return nil, protocol.Errorf(protocol.ConfigInvalid, "hooks[%d], of %s: %w", i, spec.Event, err)
		}
	}
	return all, nil
}
