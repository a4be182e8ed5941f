//go:build !linux && !darwin

package file

import "errors"

// free fails: this system is not asked.
func free(string) (bytes, inodes uint64, err error) { return 0, 0, errors.ErrUnsupported }
