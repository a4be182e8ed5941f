//go:build linux && !amd64 && !arm64

package confine

import "errors"

type filter struct{}

func filterOf(_, _ bool) filter { return filter{} }

func seccomp(filter) error { return errors.New("there is no filter for this processor") }

// FiltersCalls reports whether the kernel supports filters of system calls.
func FiltersCalls() bool { return false }
