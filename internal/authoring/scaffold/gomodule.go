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

// goModule returns the go.mod, and go.sum if needed, of a Go extension. It returns none
// when the directory is in a module.
func goModule(o Options) ([]file, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if insideModule(dir) {
		return nil, nil
	}
	mod := fmt.Sprintf("module %s\n\ngo 1.26\n\nrequire %s v%s\n", o.ID, modulePath, o.Version)
	checkout := sourceTree()
	if checkout == "" {
		return []file{{"go.mod", []byte(mod), 0o644}}, nil
	}
	// In a development build no module proxy has this version.
	mod += fmt.Sprintf("\nreplace %s => %s\n", modulePath, checkout)
	sum, err := os.ReadFile(filepath.Join(checkout, "go.sum"))
	if err != nil {
		return nil, err
	}
	return []file{{"go.mod", []byte(mod), 0o644}, {"go.sum", sum, 0o644}}, nil
}

// insideModule reports whether a directory, which need not exist, is in a module.
func insideModule(dir string) bool {
	for {
		if exists(filepath.Join(dir, "go.mod")) {
			return true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return false
		}
		dir = parent
	}
}

// sourceTree returns the checkout that this program was built in; "" if it was installed as a module or the checkout is
// gone.
func sourceTree() string {
	_, source, _, _ := runtime.Caller(0)
	if !filepath.IsAbs(source) || strings.Contains(source, "@v") {
		return ""
	}
	for dir := filepath.Dir(source); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, "go.mod")) {
			return dir
		}
	}
	return ""
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
