package connect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/file"
)

// lock keeps other runs of this program, and the client if it uses a lock, from writing the file. made is the file's
// directory if lock created it.
func (s *settings) lock(ctx context.Context) (made string, unlock func(), err error) {
	dir, mode := filepath.Dir(s.real), fs.FileMode(0o700)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		made = dir
	}
	if s.scope == ofProject {
		mode = 0o755
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return "", nil, &console.Error{
			Code: console.ExitFailed,
			Text: fmt.Sprintf("the directory of the settings cannot be made: %v; nothing was written", err),
			Hint: "make " + console.Tilde(dir) + ", or exthost connect " + s.client.ID + " --file FILE",
		}
	}
	unlockDir, err := file.LockDir(dir)
	if err != nil {
		return "", nil, fmt.Errorf("%s is locked: %w", console.Tilde(dir), err)
	}
	if !s.client.Locks || s.scope != ofUser {
		return made, unlockDir, nil
	}
	unlockClient, err := lock(ctx, s.path+".lock")
	if err != nil {
		unlockDir()
		return "", nil, err
	}
	return made, func() { unlockClient(); unlockDir() }, nil
}

// The age at which a client's lock is stale, how long to wait for a lock, and the interval between two attempts.
const (
	lockAge      = 10 * time.Second
	lockPatience = 5 * time.Second
	lockTick     = 20 * time.Millisecond
)

// lock takes the lock that a client holds while it writes its settings: a directory.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	tick := time.NewTicker(lockTick)
	defer tick.Stop()
	for began := time.Now(); ; {
		err := os.Mkdir(path, 0o700)
		if err == nil {
			return func() { _ = os.Remove(path) }, nil // if this fails, the lock becomes stale
		}
		info, statErr := os.Lstat(path)
		switch {
		case !errors.Is(err, fs.ErrExist):
			return nil, err
		case statErr == nil && time.Since(info.ModTime()) > lockAge:
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		case time.Since(began) > lockPatience:
			return nil, &console.Error{
				Code: console.ExitFailed,
				Text: "the client is writing its settings: it holds " + console.Tilde(path),
				Hint: "try it again",
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}
