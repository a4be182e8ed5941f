//go:build !linux

package console

import (
	"context"
	"os"
)

// dropTyped does nothing: discarding pending input is implemented on Linux only.
func dropTyped(*os.File) {}

// awaitTyped does nothing: the read waits, for input alone.
func awaitTyped(context.Context, *os.File) error { return nil }
