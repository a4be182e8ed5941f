package exthost

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// RunHooks tells the hooks of e.Point about e and returns what they made of it.
// It is for the points that only an agent loop knows: its sessions, its messages,
// its model's requests and answers, and the tools it is about to offer. e.Payload
// is an object, nil for an empty one, whose members the hooks see and may change;
// that of tools_select has the names of the tools in its member tools, of which
// hooks can only take away. The error is that of [hooks.Set.Run], rejected when a
// gate stays shut, or invalid_arguments.
func (h *Host) RunHooks(ctx context.Context, e hooks.Event) (hooks.Outcome, error) {
	return h.runHooks(ctx, &e, (*hooks.Set).Run)
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
	g := h.enter()
	defer g.leave()
	return run(g.hooks, ctx, e)
}

// Hook is one hook handler, as the operator sees it.
type Hook struct {
	Event     string   `json:"event"`
	Name      string   `json:"name"`
	Source    string   `json:"source"` // config, extension ID, or code
	Priority  int      `json:"priority"`
	Matcher   string   `json:"matcher"`
	Own       bool     `json:"own,omitempty"` // only for its extension's own tools
	TimeoutMS int64    `json:"timeout_ms"`
	OnError   string   `json:"on_error"`          // allow or deny
	Command   []string `json:"command,omitempty"` // as stated
}

// Hooks returns every hook handler, by event and in the order in which they run.
// Those of an extension that has not been started are the declared ones.
func (a Admin) Hooks() []Hook {
	all := []Hook{}
	for x := range a.h.gen.Load().hooks.Handlers() {
		source := "code"
		switch {
		case x.Extension != "":
			source = "extension " + x.Extension
		case x.Command != nil:
			source = "config"
		}
		all = append(all, Hook{Event: string(x.Point), Name: x.Name, Source: source, Priority: x.Priority, Matcher: x.Matcher,
			Own: x.Own, TimeoutMS: x.Timeout.Milliseconds(), OnError: string(x.OnError), Command: x.Command})
	}
	return all
}

// newHooks returns the handlers of g: those of the embedding program, then those of
// the configuration, then those of the extensions in the order of discovery.
func (h *Host) newHooks(g *generation) *hooks.Set {
	all := slices.Concat(h.opts.Hooks, g.roster.hooks)
	for _, x := range g.inOrder() {
		see := g.cfg.Extensions.Entries[x.candidate.ID].Hooks
		if see == config.HooksNone {
			continue
		}
		own := slices.Clone(x.execHooks)
		for _, point := range hooksOffered(x) {
			own = append(own, g.extensionHook(x, hooks.Point(point)))
		}
		for _, handler := range own {
			handler.Own = see == config.HooksOwn
			all = append(all, handler)
		}
	}
	return h.hookSet(all)
}

func (h *Host) hookSet(all []hooks.Handler) *hooks.Set {
	return hooks.NewSet(hooks.Options{Observe: h.hookRan, Approver: approver{h.oversight.desk}}, all...)
}

// approver puts the questions of hooks to whom those of policies go.
type approver struct{ of governance.Approver }

// Approve implements [hooks.Approver].
func (a approver) Approve(ctx context.Context, e *hooks.Event, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, governance.DefaultExpiry)
	defer cancel()
	x := governance.Exchange{Method: string(e.Point), Caller: e.Caller, Session: e.Session, Extension: e.Extension, Tool: e.Tool, ToChild: true, Request: e.Payload}
	if e.Tool != "" {
		x.Method, x.Request = protocol.MethodToolsCall, (&toolCall{arguments: e.Payload}).params(e.OwnName)
	}
	flow := governance.Request
	if e.Point == hooks.AfterToolCall {
		flow, x.Request, x.Response = governance.Response, (&toolCall{arguments: e.Arguments}).params(e.OwnName), e.Payload
	}
	approved, by, err := a.of.Ask(ctx, &x, governance.Question{Policy: "hooks", Flow: flow, Reason: reason, Expiry: governance.DefaultExpiry})
	switch {
	case err != nil:
		return err
	case !approved && by != "":
		return errors.New(by + " said no")
	case !approved:
		return errors.New("the answer was no")
	}
	return nil
}

// hooksOffered are the points that x wants to be told of in its own protocol: those
// of its handshake; before that those that it declares, or had in its last one, so
// that what comes before it is ready waits for it.
func hooksOffered(x *extension) []string {
	m := x.candidate.Manifest
	switch hs := x.handshake.Load(); {
	case m.Transport.Protocol != manifest.ProtocolNative:
		return nil
	case hs != nil:
		return hs.Hooks
	case x.hasFailed(): // nobody is to wait
		return nil
	case m.Capabilities != nil:
		return m.Capabilities.Hooks
	}
	return x.lastHooks()
}

// hookRan counts what a handler did, and logs what it did wrong.
func (h *Host) hookRan(e *hooks.Event, s hooks.Step) {
	h.tally.hook(e, s)
	if s.Err == nil {
		return
	}
	log := h.log
	if s.Extension != "" {
		log = log.With("extension", s.Extension)
	}
	log.Warn("hook failed", "hook", s.Handler, "event", string(e.Point), "tool", e.Tool, "took", s.Took, "error", s.Err)
}

// checkHooks refuses handlers of the embedding program that cannot be.
func (o Options) checkHooks() error {
	for _, handler := range o.Hooks {
		switch err := hooks.CheckMatcher(handler.Matcher); {
		case err != nil:
			return protocol.Errorf(protocol.ConfigInvalid, "hook %s: matcher: %w", handler.Name, err)
		case !slices.Contains(hooks.Points(), handler.Point):
			return protocol.Errorf(protocol.ConfigInvalid, "hook %s: %q is not a hook point", handler.Name, handler.Point)
		}
	}
	return nil
}

// operatorHooks finds the commands of the hooks of cfg.
func (h *Host) operatorHooks(cfg *config.Config) ([]hooks.Handler, error) {
	dir, err := os.Getwd()
	if err != nil || len(cfg.Hooks) == 0 {
		return nil, err
	}
	env, _ := process.Environ(h.opts.Environ, process.EnvPolicy{Mode: cfg.Extensions.Env.Mode, Pass: cfg.Extensions.Env.Pass,
		Set: map[string]string{"PWD": dir, "CLAUDE_PROJECT_DIR": dir, "EXTHOST_VERSION": h.opts.Version}})
	all := make([]hooks.Handler, len(cfg.Hooks))
	for i := range cfg.Hooks {
		spec := &cfg.Hooks[i]
		all[i], err = h.runner.Handler(hooks.Command{Handler: handlerOf(spec), Argv: spec.Command, Dir: dir, Env: env})
		if err != nil {
			return nil, protocol.Errorf(protocol.ConfigInvalid, "hooks[%d], of %s: %w", i, spec.Event, err)
		}
	}
	return all, nil
}

// handlerOf is what a file says about a hook.
func handlerOf(s *manifest.HookSpec) hooks.Handler {
	handler := hooks.Handler{Name: s.Name, Matcher: s.Matcher, Priority: s.Priority, OnError: hooks.OnError(s.OnError)}
	if event, ok := manifest.ParseHookEvent(s.Event); ok {
		handler.Point = hooks.Point(event)
	}
	if s.Timeout != nil {
		handler.Timeout = s.Timeout.Std()
	}
	return handler
}

// addHooks finds the commands of the hooks in the manifest of x, whose environment
// is env.
func (h *Host) addHooks(x *extension, env []string) (diags []protocol.Diagnostic, err error) {
	c := x.candidate
	env = slices.Concat(env, []string{"CLAUDE_PLUGIN_ROOT=" + c.Dir})
	if dir, err := os.Getwd(); err == nil {
		env = append(env, "CLAUDE_PROJECT_DIR="+dir)
	}
	for i := range c.Manifest.Hooks {
		spec := &c.Manifest.Hooks[i]
		if caps := c.Manifest.Capabilities; caps != nil && caps.Hooks != nil && !slices.Contains(caps.Hooks, spec.Event) {
			diags = append(diags, protocol.Diagnostic{Level: protocol.LevelWarn, Code: "capability_undeclared", Extension: c.ID, Path: c.Path,
				Message: "its hook of " + spec.Event + " is dropped: the manifest does not declare it", Hint: "if it is welcome, add it to [capabilities]"})
			continue
		}
		command := hooks.Command{Handler: handlerOf(spec), Argv: spec.Command, Dir: c.Dir, Env: env}
		command.Extension = c.ID
		command.Priority += c.Manifest.Plugin.Priority
		handler, err := h.runner.Handler(command)
		if err != nil {
			return diags, protocol.Errorf(protocol.SpawnFailed, "its hook of %s: %w", spec.Event, err)
		}
		x.execHooks = append(x.execHooks, handler)
	}
	return diags, nil
}

// hookPoints are the points at which x has hooks, of either kind.
func (x *extension) hookPoints() []string {
	set := make(map[string]bool)
	if hs := x.handshake.Load(); hs != nil {
		for _, name := range hs.Hooks {
			set[name] = true
		}
	}
	for _, h := range x.execHooks {
		set[string(h.Point)] = true
	}
	return slices.SortedFunc(maps.Keys(set), strings.Compare)
}
