//go:build !unix

package cassette

import "os"

// lock does nothing: Windows lets nobody rename or remove an open file.
func lock(*os.File) (taken bool) { return false }
