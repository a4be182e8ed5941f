package agefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/file/ownership"
)

// refusal is the error of a file or directory that others can access.
type refusal struct{ message, next string }

func (r *refusal) Error() string { return r.message + "; " + r.next }

// makeDirectory creates the directory of a private file.
func makeDirectory(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return checkDirectory(dir)
}

// checkDirectory refuses a directory that others may list or write, since they could replace private files in it.
func checkDirectory(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return &refusal{
			dir + " is a symbolic link or a file, and not a directory",
			"state in secrets.path where the directory is",
		}
	}
	if refused := (ownership.Rule{}).Directory(filepath.Dir(dir)); refused != nil { // others could replace it
		return &refusal{refused.Path + ": " + refused.Message, "give it to this user alone"}
	}
	return private(dir, info, "chmod 700 ")
}

// readPrivate reads a file that only this user can access. Neither the file nor its directory may be a symbolic
// link.
func readPrivate(path string, limit int64) ([]byte, error) {
	if err := checkDirectory(filepath.Dir(path)); err != nil {
		return nil, err
	}
	data, info, err := file.ReadRegular(path, limit+1, false)
	if kind, ok := errors.AsType[file.NotRegular](err); ok {
		return nil, &refusal{path + " is " + kind.Error(), "put the file itself there"}
	}
	if err != nil {
		return nil, err
	}
	if err := private(path, info, "chmod 600 "); err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return data, nil
}

// private refuses a file or directory that another user owns, or may read or write.
func private(path string, info fs.FileInfo, mend string) error {
	who, byMode := ownership.Shared(info)
	switch {
	case who == "":
		return nil
	case byMode:
		return &refusal{path + ": " + who, mend + path}
	}
	return &refusal{path + ": " + who, "remove it, or give it to this user"}
}
