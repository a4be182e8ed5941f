// Package stateformat keeps the format of a host's state directory in a file there, so that no program reads the state
// of a newer one as its own, and rewrites it with a part lost.
package stateformat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/protocol"
)

// FileName is the name of the file. Ids of extensions, whose directories lie beside it, do not begin with a dot.
const FileName = ".exthost.format"

// Current is the format that this program reads and writes. Raise it with a change that an older program would misread
// or lose, and then have [Claim] fail where it cannot state the format; add fields and files without raising it
// otherwise. A program reads all formats before its own. It may add to what they hold, and deletes nothing, because a
// host of the version before may still run beside it.
const Current = 1

// maxBytes bounds the file.
const maxBytes = 4 << 10

// content is what every format has in its file; later ones may have more.
type content struct {
	Format  int    `json:"format"`
	Version string `json:"exthost"` // of the program that wrote the format first
}

// Check returns an error if the state in dir is of a newer format, or of one that cannot be read. A directory without
// the file is new, or of format 1.
func Check(dir string) error {
	_, err := read(dir)
	return err
}

// Claim is [Check] for a host of this version, which is about to write into dir: if the directory states no format, it
// states [Current] afterwards. A directory that cannot be made or written is no error: without the file it is of format
// 1, and the host reports what its extensions cannot keep.
func Claim(dir, version string) error {
	if stated, err := read(dir); stated || err != nil {
		return err
	}
	if os.MkdirAll(dir, 0o700) != nil {
		return nil
	}
	return claim(dir, version)
}

func claim(dir, version string) error {
	unlock, err := file.LockDir(dir)
	if err != nil {
		return nil
	}
	defer unlock()
	if stated, err := read(dir); stated || err != nil { // another host was faster
		return err
	}
	data, err := json.Marshal(content{Current, version})
	if err == nil {
		_ = file.WritePrivate(filepath.Join(dir, FileName), append(data, '\n'))
	}
	return err
}

// read checks the format that dir states. stated is false if it states none.
func read(dir string) (stated bool, err error) {
	path := filepath.Join(dir, FileName)
	data, _, err := file.ReadRegular(path, maxBytes+1, false)
	_, odd := errors.AsType[file.NotRegular](err)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return false, nil
	case err != nil && !odd:
		return false, protocol.Errorf(protocol.ConfigInvalid,
			"the format of the state cannot be read: %w; set XDG_STATE_HOME to a directory of this user", err)
	}
	var c content
	if err == nil {
		c, err = parse(data)
	}
	if err != nil {
		return true, protocol.Errorf(protocol.RequirementMissing,
			"%s does not say which format the state has: %w; restore the file, or, if no newer version of exthost has "+
				"run here, remove it", path, err)
	}
	if c.Format > Current {
		return true, protocol.Errorf(protocol.RequirementMissing,
			"%s says that exthost %.40q wrote this state, in format %d, and this program reads formats up to %d; run "+
				"that version or a newer one, or set XDG_STATE_HOME to another directory, where state begins anew",
			path, c.Version, c.Format, Current)
	}
	return true, nil
}

func parse(data []byte) (c content, err error) {
	if len(data) > maxBytes {
		return c, fmt.Errorf("it has more than %d bytes", maxBytes)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, err
	}
	if c.Format < 1 {
		return c, errors.New(`it has no "format" of 1 or more`)
	}
	return c, nil
}
