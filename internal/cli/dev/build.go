package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/host/descriptors"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// builder runs [dev] build when a file has changed that [dev] watch names, before the
// extension is swapped for that change. A save between a build and the look at its result
// swaps twice: for the last program, and for the new one.
type builder struct {
	dir   string
	built string // the files, with times and sizes, that the last good build saw
}

// buildPatience bounds one build.
const buildPatience = 5 * time.Minute

// build brings the program of the extension up to date. The error, config_invalid, has
// the output of the compiler.
func (b *builder) build(ctx context.Context) error {
	m, _ := manifest.ReadFile(filepath.Join(b.dir, manifest.FileName), manifest.ReadOptions{FollowLinks: true})
	if m == nil || len(m.Dev.Build) == 0 {
		return nil // an invalid manifest is reported by the reload
	}
	sources := b.sources(m)
	if sources == b.built {
		return nil
	}
	if text, err := b.run(ctx, m.Dev.Build); err != nil {
		return protocol.Errorf(protocol.ConfigInvalid, "%s: %w\n%s", strings.Join(m.Dev.Build, " "), err,
			strings.TrimSpace(console.Cut(text, maxBuildOutput)))
	}
	b.built = sources
	return nil
}

// run runs argv as extensions are run, which approve no calls of their own, and returns what it prints.
func (b *builder) run(ctx context.Context, argv []string) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, buildPatience)
	defer cancel()
	env := os.Environ()
	search, _ := process.Lookup(env)("PATH")
	path, err := process.Resolve(argv[0], b.dir, search)
	if err != nil {
		return "", err
	}
	out := new(buildOutput)
	running, err := process.Start(ctx, process.Spec{
		Path:           path,
		Args:           argv[1:],
		Dir:            b.dir,
		Env:            process.Distinct(env),
		StdoutToStderr: true,
		Stderr:         process.StderrOptions{Burst: maxBuildLines},
		StderrLine:     out.add,
	})
	if err != nil {
		return "", err
	}
	running.Stdin.Close()
	select {
	case <-running.Done():
	case <-ctx.Done():
		running.Kill()
		<-running.Done()
		return out.String(), ctx.Err()
	}
	if exit := running.Exit(); !exit.Success() {
		return out.String(), errors.New(exit.String())
	}
	return out.String(), nil
}

// buildOutput keeps the first lines of a build, which may come until after its end.
type buildOutput struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *buildOutput) add(l process.Line) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.text.Len() < utf8.UTFMax*maxBuildOutput {
		fmt.Fprintln(&o.text, l.Text)
	}
}

func (o *buildOutput) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// maxBuildLines bounds how many lines of a compiler's errors are shown.
const maxBuildLines = 2000

// maxBuildOutput bounds what is shown of a compiler's errors, in characters.
const maxBuildOutput = 8000

// sources identifies the state of the watched files and of the manifest.
func (b *builder) sources(m *manifest.Manifest) string {
	var text strings.Builder
	for _, file := range append(descriptors.DevFiles(&runtime.Spec{Dir: b.dir, Manifest: m}),
		filepath.Join(b.dir, manifest.FileName)) {
		if info, err := os.Stat(file); err == nil {
			fmt.Fprintf(&text, "%s %d %d\n", file, info.Size(), info.ModTime().UnixNano())
		}
	}
	return text.String()
}
