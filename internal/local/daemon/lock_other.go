//go:build !unix && !windows

package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

var errLocked = errors.New("locked")

func tryLock(*os.File) error { return fmt.Errorf("the control socket: %w", errors.ErrUnsupported) }

func owned(fs.FileInfo) bool { return true }
