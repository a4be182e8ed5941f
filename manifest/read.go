package manifest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/exthost/exthost/internal/regular"
	"github.com/exthost/exthost/protocol"
)

// ReadFile reads a plugin.toml as [Parse] does, and a .mcp.json beside it as
// [ParseSidecar] does. The servers of the latter become the manifest's unless the
// manifest states servers. Both must be regular files, and no symbolic links unless
// followLinks is set. An Error about the .mcp.json leaves the manifest usable.
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

// readRegular returns the content of a regular file, cut just over [MaxBytes].
func readRegular(path string, followLinks bool) ([]byte, *protocol.Diagnostic) {
	data, _, err := regular.Read(path, MaxBytes+1, followLinks)
	if err == nil {
		return data, nil
	}
	d := &protocol.Diagnostic{Level: protocol.LevelError, Code: CodeUnreadable, Path: path, Message: "the file cannot be read: " + err.Error()}
	if kind, ok := errors.AsType[regular.NotRegular](err); ok {
		d.Code, d.Message = CodeNotRegular, "the file is "+string(kind)
	} else if failed, ok := errors.AsType[*fs.PathError](err); ok && failed.Op == "open" { // the diagnostic has the path
		d.Message = "the file cannot be opened: " + failed.Err.Error()
	} else if ok {
		d.Message = "the file cannot be read: " + failed.Err.Error()
	}
	return nil, d
}
