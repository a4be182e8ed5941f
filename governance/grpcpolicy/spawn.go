package grpcpolicy

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/protocol"
)

// spawn starts the process and passes it the path of its socket.
func (s *Service) spawn(ctx context.Context, socket string) (*process.Process, error) {
	spec := &s.o.Spec
	env := withPluginEnv(s.o.Env, map[string]string{
		"MCPV_PLUGIN_SOCKET":   socket,
		"MCPD_PLUGIN_SOCKET":   socket,
		"MCPV_PLUGIN_NAME":     spec.Name,
		"MCPV_PLUGIN_CATEGORY": string(spec.Category),
	})
	dir := spec.Cwd
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return nil, spawnFailed(err)
		}
	}
	path, _ := process.Lookup(env)("PATH")
	program, err := process.Resolve(spec.Cmd[0], dir, path)
	if err != nil {
		return nil, spawnFailed(err)
	}
	p, err := process.Start(ctx, process.Spec{
		Path: program, Args: spec.Cmd[1:], Dir: dir, Env: env, Containment: s.o.Containment,
		StdoutToStderr: true, StderrLine: s.log,
	})
	if err != nil {
		return nil, spawnFailed(err)
	}
	s.proc.Store(p)
	return p, nil
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

// spawnFailed returns the error of a process that could not be started.
func spawnFailed(err error) *protocol.Error {
	e := protocol.Errorf(protocol.SpawnFailed, "%w", err)
	if start, ok := errors.AsType[*process.StartError](err); ok {
		e.Data, _ = json.Marshal(map[string]string{"reason": string(start.Reason)}) // strings always encode
	}
	return e
}

// evidenceOf returns the stderr of a process, and its exit status if it has ended.
func evidenceOf(p *process.Process) *protocol.Evidence {
	e := &protocol.Evidence{Stderr: p.Tail()}
	select {
	case <-p.Done():
	default:
		return e
	}
	exit := p.Exit()
	e.Signal = exit.Signal
	if exit.Signal == "" && exit.Err == nil {
		e.ExitCode = &exit.Code
	}
	return e
}
