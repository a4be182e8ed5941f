//go:build !unix

// Package dirlock keeps two programs from changing the files of a directory at once.
package dirlock

import (
	"context"
	"sync"
)

// locked holds a token for each directory that is not locked.
var locked sync.Map

// Lock is [Wait] without an end.
func Lock(dir string) (unlock func(), err error) { return Wait(context.Background(), dir) }

// Wait keeps other goroutines that lock the directory out until unlock, and waits for them until
// ctx ends. When two programs change a file at the same time, the last change wins.
func Wait(ctx context.Context, dir string) (unlock func(), err error) {
	free := make(chan struct{}, 1)
	free <- struct{}{}
	found, _ := locked.LoadOrStore(dir, free)
	free = found.(chan struct{})
	select {
	case <-free:
		return func() { free <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
