//go:build !unix

package audit

import "os"

// takeLock opens the lock file, which keeps nobody out on this system.
func takeLock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}
