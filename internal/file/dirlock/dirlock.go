// Package dirlock keeps two programs from changing the files of a directory at once.
package dirlock

import (
	"context"
	"time"
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

// Wait keeps other programs, and other goroutines, that lock the directory out of it until unlock,
// and waits for them until ctx ends. The lock leaves no file and ends with the process.
func Wait(ctx context.Context, dir string) (unlock func(), err error) {
	for {
		unlock, taken, err := try(dir)
		if err == nil || !taken {
			return unlock, err
		}
		select {
		case <-time.After(lockTick):
		case <-ctx.Done():
			return nil, err
		}
	}
}
