//go:build !linux

package console

import "os"

// dropTyped does nothing: only Linux has the call that this program knows.
func dropTyped(*os.File) {}
