package unit

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// HookHandler translates the n-th hook of a file. A hook without a name is named by its index, event and matcher,
// not by its command line, because refusals show the name to clients.
func HookHandler(s *manifest.HookSpec, n int) hooks.Handler {
	name := s.Name
	if name == "" {
		name = strings.TrimSpace(fmt.Sprintf("%s[%d] %s", s.Event, n, s.Matcher))
	}
	h := hooks.Handler{Name: name, Matcher: s.Matcher, Priority: s.Priority, OnError: hooks.OnError(s.OnError)}
	if event, ok := manifest.ParseHookEvent(s.Event); ok {
		h.Point = hooks.Point(event)
	}
	if s.Timeout != nil {
		h.Timeout = s.Timeout.Std()
	}
	return h
}

// resolveEnv returns the environment of a hook's command with secrets resolved.
func (x *Extension) resolveEnv(ctx context.Context, env []string) ([]string, error) {
	s := *x.Spec
	s.Env = env
	out, err := s.Resolved(ctx)
	if err != nil {
		return nil, err
	}
	return out.Env, nil
}

// addCommands resolves the hook commands of the manifest. env is their environment.
func (x *Extension) addCommands(runner *hooks.Runner, env []string) (diags []protocol.Diagnostic, err error) {
	c := x.Candidate
	env = append(slices.Clip(env), "CLAUDE_PLUGIN_ROOT="+c.Dir, "CLAUDE_PLUGIN_DATA="+x.Spec.StateDir)
	if dir, err := os.Getwd(); err == nil {
		env = append(env, "CLAUDE_PROJECT_DIR="+dir)
	}
	for i := range c.Manifest.Hooks {
		spec := &c.Manifest.Hooks[i]
		if caps := c.Manifest.Capabilities; caps != nil && caps.Hooks != nil &&
			!slices.Contains(caps.Hooks, spec.Event) {
			diags = append(diags, protocol.Diagnostic{
				Level:     protocol.LevelWarn,
				Code:      "capability_undeclared",
				Extension: c.ID,
				Path:      c.Path,
				Message:   "its hook of " + spec.Event + " is dropped: hooks of [capabilities] does not list it",
				Hint:      "if it is welcome, add it there; without the list of hooks every hook is admitted",
			})
			continue
		}
		command := hooks.Command{
			Handler: HookHandler(spec, i),
			Argv:    spec.Command,
			Dir:     c.Dir,
			Env:     env,
			Sandbox: x.Spec.Sandbox,
			Permit:  x.Spec.Permit,
			Resolve: x.resolveEnv,
		}
		command.Extension = c.ID
		command.Priority += c.Manifest.Plugin.Priority
		handler, err := runner.Handler(command)
		if err != nil {
			return diags, protocol.Errorf(protocol.SpawnFailed, "its hook of %s: %w", spec.Event, err)
		}
		x.Commands = append(x.Commands, handler)
	}
	return diags, nil
}
