package dev

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/offers"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// builder runs [dev] build when a file has changed that [dev] watch names, so that a save
// never swaps the extension for its old program.
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
	ctx, cancel := context.WithTimeout(ctx, buildPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.Dev.Build[0], m.Dev.Build[1:]...)
	cmd.Dir, cmd.WaitDelay = b.dir, time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(console.Cut(out.String(), maxBuildOutput))
		return protocol.Errorf(protocol.ConfigInvalid, "%s: %w\n%s", strings.Join(m.Dev.Build, " "), err, text)
	}
	b.built = sources
	return nil
}

// maxBuildOutput bounds what is shown of a compiler's errors, in characters.
const maxBuildOutput = 8000

// sources identifies the state of the watched files and of the manifest.
func (b *builder) sources(m *manifest.Manifest) string {
	var text strings.Builder
	for _, file := range append(offers.DevFiles(&runtime.Spec{Dir: b.dir, Manifest: m}), filepath.Join(b.dir, manifest.FileName)) {
		if info, err := os.Stat(file); err == nil {
			fmt.Fprintf(&text, "%s %d %d\n", file, info.Size(), info.ModTime().UnixNano())
		}
	}
	return text.String()
}
