package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/exthost/exthost/protocol"
)

// ReadFile reads a plugin.toml as [Parse] does, and beside it a .mcp.json as
// [ParseSidecar] does, whose servers become the manifest's unless it states its
// own. Only regular files are read: a FIFO of that name blocks nothing. Unless
// followLinks is set, neither may be a symbolic link. An Error about the
// sidecar leaves the manifest usable.
func ReadFile(path string, followLinks bool) (*Manifest, []protocol.Diagnostic) {
	data, diag := readRegular(path, followLinks)
	if diag != nil {
		return nil, []protocol.Diagnostic{*diag}
	}
	servers, notes := readSidecar(filepath.Join(filepath.Dir(path), SidecarName), followLinks)
	m, diags := parse(path, data, servers)
	return m, append(diags, notes...)
}

func readSidecar(path string, followLinks bool) (map[string]Server, []protocol.Diagnostic) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	data, diag := readRegular(path, followLinks)
	if diag != nil {
		return nil, []protocol.Diagnostic{*diag}
	}
	return ParseSidecar(path, data)
}

// readRegular returns what a regular file holds, cut just over [MaxBytes].
func readRegular(path string, followLinks bool) ([]byte, *protocol.Diagnostic) {
	unreadable := func(code, message string) *protocol.Diagnostic {
		return &protocol.Diagnostic{Level: protocol.LevelError, Code: code, Path: path, Message: message}
	}
	flags := os.O_RDONLY | nonBlocking // opening a FIFO would wait for a writer
	if !followLinks {
		flags |= noFollow
	}
	f, err := os.OpenFile(path, flags, 0)
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, unreadable(CodeNotRegular, "the file is a symbolic link, and links are not followed here")
	case errors.Is(err, syscall.ENXIO): // a socket
		return nil, unreadable(CodeNotRegular, "the file is not a regular file")
	case err != nil:
		return nil, unreadable(CodeUnreadable, "the file cannot be opened: "+reason(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return nil, unreadable(CodeNotRegular, fmt.Sprintf("the file is a %s, not a regular file", typeName(info.Mode())))
	}
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, MaxBytes+1))
	}
	if err != nil {
		return nil, unreadable(CodeUnreadable, "the file cannot be read: "+reason(err))
	}
	return data, nil
}

// reason strips the path, which the diagnostic has, from an error.
func reason(err error) string {
	if perr := (*fs.PathError)(nil); errors.As(err, &perr) {
		return perr.Err.Error()
	}
	return err.Error()
}

func typeName(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeNamedPipe != 0:
		return "FIFO"
	case mode&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}
