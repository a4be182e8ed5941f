package edit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/protocol"
)

// MaxBytes is the maximum size of a configuration file.
const MaxBytes = 1 << 20

// Lock excludes other programs from changing a file, which need not exist, until unlock. It removes the temporary
// files of killed programs.
func Lock(name string) (unlock func(), err error) {
	if unlock, err = file.LockDir(filepath.Dir(name)); err != nil {
		return nil, protocol.Errorf(protocol.ConfigInvalid, "%s: somebody else is changing it: %w", name, err)
	}
	file.RemoveTemporary(name)
	return unlock, nil
}

// Write replaces the file with the text that apply returns, or leaves it untouched. Its errors are of kind
// config_invalid, except those of the file system, such as a full disk.
func Write(name string, apply func(data []byte) (changed []byte, line int, err error),
) (line int, created bool, err error) {
	defer func() {
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			err = path.Err // the text has the path already
		}
		if _, ok := errors.AsType[syscall.Errno](err); ok {
			err = fmt.Errorf("%s: %w", name, err)
		} else if err != nil {
			err = protocol.Errorf(protocol.ConfigInvalid, "%s: %w", name, err)
		}
	}()
	if err := file.CheckBelowHere(name); err != nil {
		return 0, false, err
	}
	data, err := os.ReadFile(name)
	if created = errors.Is(err, fs.ErrNotExist); err != nil && !created {
		return 0, false, err
	}
	changed, line, err := apply(data)
	if err == nil && len(changed) > MaxBytes {
		err = fmt.Errorf("it would have %d bytes, more than a configuration file may have (%d); it was left as it is",
			len(changed), MaxBytes)
	}
	if err != nil {
		return 0, false, err
	}
	if err := file.WriteAtomic(name, changed); err != nil {
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			err = path.Err
		}
		return 0, false, fmt.Errorf("it was left as it is: %w", err)
	}
	return line, created, nil
}

// ByHand is the error for a file in a notation that this package cannot change.
type ByHand struct {
	File  string
	Lines string // the text that a person should write into the file
	Err   error
}

// Error names the file and the cause.
func (b *ByHand) Error() string { return b.File + ": " + b.Err.Error() }
