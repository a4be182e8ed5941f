//go:build !unix

package config

import "sync"

var locked sync.Mutex

// lock keeps the rest of this program from changing files by [SetListed] until unlock.
// Of two programs that change one at the same time, the last one counts.
func lock(string) (unlock func(), err error) {
	locked.Lock()
	return locked.Unlock, nil
}
