package processtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/file"
)

// buildPatience bounds a build, including the wait for builds of other test binaries.
const buildPatience = 10 * time.Minute

// programs is where Build puts programs. It is set before a test changes the environment or the working directory.
var programs place

type place struct {
	run  string // directory of this run of the tests, shared by its shards
	kept string // directory that is kept from run to run
	work string // directory of the package
}

func (p *place) open(run string) (err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	p.run, p.kept = run, filepath.Join(cache, "exthost-tests")
	p.work, err = os.Getwd()
	return err
}

// Build runs go build and returns the directory with the programs. args are flags, followed by main packages relative
// to the root of the module. Programs are built at a path that is kept between runs, so that the go command links only
// what has changed, and then copied, so that no build replaces them before the tests of this package end. TestMain must
// have called [Shards.Run].
func Build(args ...string) (dir string, err error) { return programs.build(args) }

func (p place) build(args []string) (dir string, err error) {
	if p.run == "" {
		return "", errors.New("build programs for tests: TestMain does not run the tests by processtest.Sharded")
	}
	module, err := moduleOf(p.work)
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("%x", sha256.Sum256([]byte(module+"\n"+strings.Join(args, "\n"))))[:16]
	kept, dir := filepath.Join(p.kept, key), filepath.Join(p.run, key)
	if err := os.MkdirAll(kept, 0o700); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildPatience)
	defer cancel()
	unlock, err := file.LockDirContext(ctx, kept)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil // another shard has built it
	}
	cmd := exec.CommandContext(ctx, "go",
		append([]string{"build", "-o", kept + string(filepath.Separator)}, args...)...)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	part := dir + ".part"
	if err := os.CopyFS(part, os.DirFS(kept)); err != nil {
		return "", err
	}
	return dir, os.Rename(part, dir)
}

// moduleOf returns the root of the module that dir lies in.
func moduleOf(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s lies in no module", dir)
		}
	}
}
