package discovery

import (
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/exthost/exthost/internal/file/ownership"
	"github.com/exthost/exthost/protocol"
)

// owners caches which directories other users may change, as extensions have common parents.
type owners struct {
	mu   sync.Mutex
	dirs map[string]*ownership.Refused // by path; nil: nobody else may change it
}

// refuse returns why a manifest is not used: other users may change the manifest, or a directory from its own up to
// the search path, and could so replace the code of the extension.
func (w *walk) refuse(path string, info fs.FileInfo) *protocol.Diagnostic {
	refused := (ownership.Rule{Safe: w.o.Safe}).File(path, info)
	for dir := filepath.Dir(path); refused == nil && dir != w.root.path && dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
		refused = w.changeable(dir)
	}
	if refused == nil {
		return nil
	}
	return &protocol.Diagnostic{
		Level:   protocol.LevelError,
		Code:    CodeOwner,
		Path:    path,
		Message: "not used: " + refused.Message,
		Hint:    refused.Hint,
	}
}

func (w *walk) changeable(dir string) *ownership.Refused {
	w.owners.mu.Lock()
	refused, known := w.owners.dirs[dir]
	w.owners.mu.Unlock()
	if known {
		return refused
	}
	refused = (ownership.Rule{Safe: w.o.Safe}).Directory(dir)
	w.owners.mu.Lock()
	defer w.owners.mu.Unlock()
	if w.owners.dirs == nil {
		w.owners.dirs = make(map[string]*ownership.Refused)
	}
	w.owners.dirs[dir] = refused
	return refused
}
