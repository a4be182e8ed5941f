package check

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/proc/sandbox/egress"
	"github.com/exthost/exthost/manifest"
	asked "github.com/exthost/exthost/manifest/sandbox"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// nowhere is an unreachable host. Allowing it gives an extension without network access a proxy, which refuses and
// records every target.
const nowhere = "exthost-check.invalid:1"

// probeSandbox runs the extension in its sandbox and reports what [sandbox] lacks. It runs the extension once for files
// and once for hosts: denied files can be recorded only without namespaces, hosts only with them.
func (s *subject) probeSandbox(ctx context.Context) error {
	policy := s.spec.Sandbox
	if policy == nil {
		return skipf("it has no process here, or the configuration says sandbox: off")
	}
	if _, err := process.Protect(policy, s.isolated(), s.spec.Containment); err != nil {
		return err
	}
	spec, err := aside(s.spec)
	if err != nil {
		return err
	}
	defer os.RemoveAll(spec.StateDir)
	files := *spec.Sandbox
	files.Net, files.Watch = nil, new(sandbox.Watch)
	own := process.OwnProc(policy, s.isolated(), s.spec.Containment)
	if own {
		files.Write = append(slices.Clone(files.Write), filepath.Join(spec.StateDir, "tmp"))
	}
	made, ended := s.runIn(ctx, spec, files)
	refused, proc := withoutProc(files.Watch.Refused())
	targets, unseen := s.targets(ctx, spec)
	lines := spec.Sandbox.Additions(spec.Manifest.Sandbox, refused, targets)
	if unseen != nil && ended == nil {
		lines = append(lines, "which hosts it asks for was not watched: "+unseen.Error())
	}
	const ownProc = `it asked for /proc, of which runtime.isolate = "pid" gives it one of its own`
	if proc = proc && !own; proc && (len(lines) > 0 || ended != nil) {
		lines = append(lines, ownProc)
	}
	if len(lines) > 0 {
		return hintf("%s", strings.Join(lines, "\n"))
	}
	if ended != nil {
		return fmt.Errorf("it was refused no file that is there, and does not run: %w", ended)
	}
	if table := s.spec.Manifest.Sandbox; table == nil {
		return hintf("%d calls need nothing but its own folder and state directory; its manifest may say so: "+
			"[sandbox]\nwrite = [%q]", made, asked.State)
	}
	if proc {
		return passf("%d calls; %s", made, ownProc)
	}
	return passf("%d calls, nothing refused", made)
}

// withoutProc removes accesses to /proc, which come from programs that inspect themselves, and to the terminal, which
// no sandbox allows. It reports whether there were any to /proc.
func withoutProc(refused []sandbox.Access) (rest []sandbox.Access, proc bool) {
	for _, a := range refused {
		switch {
		case strings.HasPrefix(a.Path, "/proc/"):
			proc = true
		case a.Path != "/dev/tty":
			rest = append(rest, a)
		}
	}
	return rest, proc
}

func (s *subject) isolated() bool { return s.spec.Options.Isolate == manifest.IsolatePID }

// runIn starts an instance in a sandbox, makes the calls of check.json, or one that is safe, and ends the instance. The
// error is the one of the start.
func (s *subject) runIn(ctx context.Context, spec runtime.Spec, p sandbox.Policy) (made int, err error) {
	spec.Sandbox, spec.Logger, spec.Options.Isolate = &p, slog.New(slog.DiscardHandler), manifest.IsolateNone
	instance, err := runtime.New(spec)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- instance.Serve(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		return 0, err
	}
	calls := s.fixture.Calls
	if one, err := s.sample(); len(calls) == 0 && err == nil {
		calls = []*fixtureCall{one}
	}
	for _, c := range calls {
		if c.Cancel {
			continue
		}
		made++
		_, e := instance.Call(ctx, &runtime.Request{Method: protocol.MethodToolsCall, Params: c.params()})
		if protocol.KindOf(e) == protocol.SpawnFailed { // probeCalls judges other errors
			err = e
		}
	}
	cancel()
	<-ended
	return made, err
}

// aside returns s with a temporary state directory, so that other probes find the original one unchanged.
func aside(s runtime.Spec) (runtime.Spec, error) {
	was := s.StateDir
	dir, err := os.MkdirTemp(filepath.Dir(was), "sandbox-")
	if err != nil {
		return s, err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		err = os.Mkdir(filepath.Join(real, "tmp"), 0o700) // TMPDIR
	}
	if err != nil {
		os.RemoveAll(dir)
		return s, err
	}
	dir = real
	moved := func(words []string) (all []string) {
		for _, word := range words {
			all = append(all, strings.ReplaceAll(word, was, dir))
		}
		return all
	}
	p, m := *s.Sandbox, *s.Manifest
	p.Read, p.Write, p.At.State = moved(p.Read), moved(p.Write), dir
	t := &m.Transport
	t.Cmd, t.Args, t.Cwd = moved(t.Cmd), moved(t.Args), strings.ReplaceAll(t.Cwd, was, dir)
	s.StateDir, s.Env, s.Sandbox, s.Manifest = dir, moved(s.Env), &p, &m
	return s, nil
}

// targets returns the hosts that the extension asked its proxy for and that its sandbox does not allow. The error says
// why they could not be recorded.
func (s *subject) targets(ctx context.Context, spec runtime.Spec) ([]string, error) {
	p := *spec.Sandbox
	if p.Net.Hosts() == nil {
		p.Net = asked.Net{nowhere}
	}
	if _, err := process.Protect(&p, false, spec.Containment); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var all []string
	p.Record = func(a egress.Attempt) {
		mu.Lock()
		defer mu.Unlock()
		if a.Refused != "" && a.Target != "" && !slices.Contains(p.Net, a.Target) && !slices.Contains(all, a.Target) &&
			len(all) < 100 {
			all = append(all, a.Target)
		}
	}
	_, err := s.runIn(ctx, spec, p)
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(all)
	return all, err
}
