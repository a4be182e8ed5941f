//go:build !linux

package consent

import "io/fs"

// identity returns no more than the size: the file is read each time.
func identity(info fs.FileInfo) File { return File{Size: info.Size()} }
