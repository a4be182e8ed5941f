//go:build !linux

package console

import "os"

// dropTyped does nothing: discarding pending input is implemented on Linux only.
func dropTyped(*os.File) {}
