package runtime

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// RootsResult returns the result of roots/list with the given directories; nil if there are none.
func RootsResult(dirs []string) json.RawMessage {
	if len(dirs) == 0 {
		return nil
	}
	type root struct {
		URI  string `json:"uri"`
		Name string `json:"name"`
	}
	list := make([]root, 0, len(dirs))
	for _, dir := range dirs {
		path := filepath.ToSlash(dir)
		if !strings.HasPrefix(path, "/") { // a Windows drive
			path = "/" + path
		}
		uri := url.URL{Scheme: "file", Path: path}
		list = append(list, root{uri.String(), filepath.Base(dir)})
	}
	return mustJSON(map[string]any{"roots": list})
}

// answersRoots reports whether m is a request for the roots that the host answers itself.
func (c *child) answersRoots(m *jsonrpc.Message) bool {
	return c.roots != nil && m.ID != nil && m.Method == protocol.MethodRootsList
}
