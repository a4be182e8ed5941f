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

// builder runs the command [dev] build before the extension is swapped, if a file of [dev] watch has changed since the
// last good build.
type builder struct {
	dir   string
	built string // state of the files at the last good build: names, sizes, times
}

// buildPatience is how long one build may take.
const buildPatience = 5 * time.Minute

// build brings the program of the extension up to date. The error is config_invalid, with the output of the compiler.
func (b *builder) build(ctx context.Context) error {
	m := b.manifest()
	if m == nil {
		return nil // the reload reports an invalid manifest
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

// manifest returns the manifest of the extension, nil if it states no build or is invalid.
func (b *builder) manifest() *manifest.Manifest {
	m, _ := manifest.ReadFile(filepath.Join(b.dir, manifest.FileName), manifest.ReadOptions{FollowLinks: true})
	if m == nil || len(m.Dev.Build) == 0 {
		return nil
	}
	return m
}

// current reports whether no file has been saved since the last good build began.
func (b *builder) current() bool {
	m := b.manifest()
	return m == nil || b.sources(m) == b.built
}

// run runs argv as a process of the host, which cannot approve calls, and returns its output.
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

// buildOutput keeps the first lines of a build's output. Lines may still arrive after the process has ended.
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

// maxBuildLines is how many lines of a compiler's output are kept.
const maxBuildLines = 2000

// maxBuildOutput is how much of a compiler's output is shown, in characters.
const maxBuildOutput = 8000

// sources returns the state of the watched files and the manifest: names, sizes, times.
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
