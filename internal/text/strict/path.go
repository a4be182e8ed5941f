package strict

import (
	"fmt"
	"strconv"
	"strings"
)

// Join appends a key to a path such as extensions.entries."a.b".hooks.
func Join(path, key string) string {
	if key == "" || strings.ContainsAny(key, ".[]\" \t\n") {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// Index appends a list index to a path.
func Index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// Positions maps the path of each value to where it was last stated.
type Positions map[string]Pos

// At returns the position of path, or of its closest stated parent. ok is false if there is none.
func (p Positions) At(path string) (Pos, bool) {
	for path != "" {
		if pos, ok := p[path]; ok {
			return pos, true
		}
		path = parent(path)
	}
	pos, ok := p[""]
	return pos, ok
}

// drop removes the elements of the list at path from index keep on.
func (p Positions) drop(path string, keep int) {
	for key := range p {
		rest, below := strings.CutPrefix(key, path+"[")
		number, _, _ := strings.Cut(rest, "]")
		if i, err := strconv.Atoi(number); below && err == nil && i >= keep {
			delete(p, key)
		}
	}
}

// parent cuts the last key or index off a path.
func parent(path string) string {
	end := len(path)
	if strings.HasSuffix(path, `"`) { // a quoted key may contain dots and brackets
		for end--; end > 0; end-- {
			if path[end-1] == '"' && (end < 2 || path[end-2] != '\\') {
				return strings.TrimSuffix(path[:end-1], ".")
			}
		}
		return ""
	}
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}
