package runtime

import (
	"errors"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/protocol"
)

// CommandLine returns the argv for the transport of s. The first word is the path of the executable. The error names
// the missing program.
func (s *Spec) CommandLine() ([]string, error) {
	t := &s.Manifest.Transport
	switch {
	case t.Script != "":
		argv, err := process.LaunchScript(t.Script, s.Dir, pathOf(s.Env))
		return append(argv, t.Args...), err
	case len(t.Cmd) > 0:
		return s.command(t.Cmd)
	}
	return s.command(append([]string{t.Command}, t.Args...))
}

// self is the command name that stands for the host's own executable.
const self = "exthost"

// command returns a copy of words in which the path of the executable replaces its name.
func (s *Spec) command(words []string) ([]string, error) {
	if len(words) == 0 {
		words = []string{""} // Resolve returns the error for an empty command
	}
	if words[0] == self && s.Self != "" && !s.Manifest.Transport.Literal {
		return append([]string{s.Self}, words[1:]...), nil
	}
	path, err := process.Resolve(words[0], s.Dir, pathOf(s.Env))
	return append([]string{path}, words[1:]...), err
}

// WorkDir returns the working directory of the processes.
func (s *Spec) WorkDir() string {
	cwd := s.Manifest.Transport.Cwd
	if filepath.IsAbs(cwd) {
		return cwd
	}
	return filepath.Join(s.Dir, cwd)
}

func pathOf(env []string) string {
	for _, kv := range env {
		name, path, _ := strings.Cut(kv, "=")
		if name == "PATH" || goruntime.GOOS == "windows" && strings.EqualFold(name, "PATH") {
			return path
		}
	}
	return ""
}

// SpawnFailed converts the error of a failed start.
func SpawnFailed(err error) *protocol.Error {
	e := protocol.Errorf(protocol.SpawnFailed, "%w", err)
	if start, ok := errors.AsType[*process.StartError](err); ok {
		e.Data = mustJSON(map[string]string{"reason": string(start.Reason)})
	}
	return e
}

// EvidenceOf returns the last stderr lines of a process and, once it has ended, its exit status.
func EvidenceOf(p *process.Process) *protocol.Evidence {
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
