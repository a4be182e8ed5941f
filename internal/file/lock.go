package file

import (
	"context"
	"time"
)

// How long Lock waits, and how often it tries.
const (
	lockPatience = 5 * time.Second
	lockTick     = 5 * time.Millisecond
)

// LockDir is like [LockDirContext], for at most 5 s.
func LockDir(dir string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	return LockDirContext(ctx, dir)
}

// LockDirContext locks dir against other programs and goroutines that lock it, until unlock is called. It waits for
// them until ctx ends. The lock leaves no file behind and ends with the process.
func LockDirContext(ctx context.Context, dir string) (unlock func(), err error) {
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
