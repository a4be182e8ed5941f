//go:build unix

package file

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestReadRegular(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // short path, as for sockets
	if err := errors.Join(os.WriteFile("file", []byte("content"), 0o600), os.Symlink("file", "link"),
		os.Symlink("loop", "loop"),
		os.Mkdir("directory", 0o700), syscall.Mkfifo("fifo", 0o600)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, want := range map[string]string{
		"link":      "a symbolic link, and links are not followed here",
		"directory": "a directory, not a regular file",
		"fifo":      "a FIFO, not a regular file",
		"socket":    "a socket, not a regular file",
		os.DevNull:  "a device, not a regular file",
	} {
		_, _, err := ReadRegular(name, 9, false)
		if kind, ok := errors.AsType[NotRegular](err); !ok || kind.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if _, _, err := ReadRegular("missing", 9, false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, _, err := ReadRegular("loop", 9, true); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link to itself: %v", err)
	}
	for _, name := range []string{filepath.Join(dir, "file"), "link"} {
		data, info, err := ReadRegular(name, 4, true)
		if err != nil || string(data) != "cont" || info.Size() != 7 {
			t.Errorf("%s: %q, %v, %v", name, data, info, err)
		}
	}
}
