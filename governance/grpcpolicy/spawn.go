package grpcpolicy

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/runtime"
)

// spawn starts the process and passes it the path of its socket.
func (s *Service) spawn(ctx context.Context, socket string) (*process.Process, error) {
	spec := &s.o.Spec
	env, err := s.environ(ctx)
	if err != nil {
		return nil, err
	}
	env = withPluginEnv(env, map[string]string{
		"MCPV_PLUGIN_SOCKET":   socket,
		"MCPD_PLUGIN_SOCKET":   socket,
		"MCPV_PLUGIN_NAME":     spec.Name,
		"MCPV_PLUGIN_CATEGORY": string(spec.Category),
	})
	dir := spec.Cwd
	if dir == "" {
		if dir, err = os.Getwd(); err != nil {
			return nil, runtime.SpawnFailed(err)
		}
	}
	path, _ := process.Lookup(env)("PATH")
	program, err := process.Resolve(spec.Cmd[0], dir, path)
	if err != nil {
		return nil, runtime.SpawnFailed(err)
	}
	p, err := process.Start(ctx, process.Spec{
		Path:           program,
		Args:           spec.Cmd[1:],
		Dir:            dir,
		Env:            env,
		Containment:    s.o.Containment,
		StdoutToStderr: true,
		StderrLine:     s.log,
	})
	if err != nil {
		return nil, runtime.SpawnFailed(err)
	}
	s.proc.Store(p)
	return p, nil
}

// environ returns the environment that the operator states, for one start.
func (s *Service) environ(ctx context.Context) ([]string, error) {
	if s.o.Resolve == nil {
		return s.o.Env, nil
	}
	return s.o.Resolve(ctx)
}

// withPluginEnv returns env with the variables of the protocol.
func withPluginEnv(env []string, contract map[string]string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, ours := contract[name]
		return ours
	})
	for name, value := range contract {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

func (s *Service) log(l process.Line) {
	var attrs []slog.Attr
	if l.Truncated {
		attrs = append(attrs, slog.Bool("truncated", true))
	}
	if l.Dropped > 0 {
		attrs = append(attrs, slog.Int("dropped", l.Dropped))
	}
	s.o.Logger.LogAttrs(context.Background(), l.Level, l.Text, attrs...)
}
