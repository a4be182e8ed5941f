//go:build !unix

package config

import "sync"

var locked sync.Mutex

// lock keeps other goroutines from changing files by [SetListed] until unlock. When
// two programs change a file at the same time, the last change wins.
func lock(string) (unlock func(), err error) {
	locked.Lock()
	return locked.Unlock, nil
}
