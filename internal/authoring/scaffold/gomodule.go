package scaffold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

const modulePath = "github.com/exthost/exthost"

// goModule returns the go.mod, and go.sum if needed, of a Go extension; none if the directory is in a module.
func (o Options) goModule() ([]output, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if moduleOf(dir) != "" {
		return nil, nil
	}
	mod := fmt.Sprintf("module %s\n\ngo 1.26\n\nrequire %s v%s\n", o.ID, modulePath, o.Version)
	checkout := sourceTree()
	if checkout == "" {
		return []output{{"go.mod", []byte(mod), 0o644}}, nil
	}
	// In a development build no module proxy has this version.
	mod += fmt.Sprintf("\nreplace %s => %s\n", modulePath, checkout)
	sum, err := os.ReadFile(filepath.Join(checkout, "go.sum"))
	if err != nil {
		return nil, err
	}
	return []output{{"go.mod", []byte(mod), 0o644}, {"go.sum", sum, 0o644}}, nil
}

// moduleOf returns the root of the module that contains dir; "" if there is none. dir need not exist.
func moduleOf(dir string) string {
	for {
		if exists(filepath.Join(dir, "go.mod")) {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// sourceTree returns the checkout that this program was built in; "" if it was installed as a module or the checkout is
// gone.
func sourceTree() string {
	_, source, _, _ := runtime.Caller(0)
	if !filepath.IsAbs(source) || strings.Contains(source, "@v") || !exists(source) {
		return ""
	}
	return moduleOf(filepath.Dir(source))
}

// ErrNoGo is returned by Build if there is no Go toolchain.
var ErrNoGo = errors.New("there is no go on PATH")

// Build builds the Go extension in dir as the executable id, which its manifest names.
func Build(ctx context.Context, dir, id string) error {
	program, err := exec.LookPath("go")
	if err != nil {
		return ErrNoGo
	}
	args := []string{"build", "-o", id, "."}
	if exists(filepath.Join(dir, "go.mod")) {
		args = []string{"build", "-mod=mod", "-o", id, "."} // go.sum is incomplete
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
