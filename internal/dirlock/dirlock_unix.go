//go:build unix

// Package dirlock keeps two programs from changing the files of a directory at once.
package dirlock

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// How long Lock waits for another program, and how often it tries.
const (
	lockPatience = 5 * time.Second
	lockTick     = 5 * time.Millisecond
)

// Lock is [Wait] for at most 5 s.
func Lock(dir string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	return Wait(ctx, dir)
}

// Wait keeps other programs that lock the directory out of it until unlock, and waits for them
// until ctx ends. The lock leaves no file and ends with the process.
func Wait(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
			select {
			case <-time.After(lockTick):
				continue
			case <-ctx.Done():
			}
		}
		f.Close()
		return nil, err
	}
}
