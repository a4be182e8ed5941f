// Package envfile reads files of environment variables: NAME=value lines, or YAML and JSON objects.
package envfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/text/strict"
)

// maxBytes bounds the size of a file.
const maxBytes = 1 << 20

// Read returns the variables of a file. A .yaml, .yml or .json file is an object of variables, or an object of
// sections with variables: section selects one, and a missing section has no variables. Any other file has
// NAME=value lines: blank lines and # comments are skipped, a leading `export ` and quotes around the value are
// removed. Errors name file and line, and never quote a value.
func Read(path, section string) (map[string]string, error) {
	data, _, err := file.ReadRegular(path, maxBytes+1, true)
	switch _, other := err.(file.NotRegular); {
	case other:
		return nil, fmt.Errorf("%s is %w", path, err)
	case os.IsNotExist(err):
		return nil, fmt.Errorf("%s does not exist", path)
	case err != nil:
		return nil, err
	case len(data) > maxBytes:
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxBytes)
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml", ".json": // JSON is YAML
		return object(path, data, section)
	}
	return lines(path, string(data))
}

func object(path string, data []byte, section string) (map[string]string, error) {
	r := &strict.Report{}
	root := strict.YAML(strict.NewSource(path, data), r)
	if r.Failed() {
		return nil, fmt.Errorf("%s", r.Diagnostics[0])
	}
	if root.Kind == strict.Map && len(root.Fields) > 0 && root.Fields[0].Value.Kind == strict.Map {
		if root = root.At(section); root == nil {
			return nil, nil
		}
	}
	vars := make(map[string]string)
	if root.Kind == strict.Null {
		return vars, nil
	}
	if root.Kind != strict.Map {
		return nil, fmt.Errorf("%s: want an object of variables, not %s", root.Pos, root.Kind)
	}
	for _, f := range root.Fields {
		switch f.Value.Kind {
		case strict.List, strict.Map:
			return nil, fmt.Errorf("%s: a variable is a text, not %s", f.Pos, f.Value.Kind)
		}
		if !named(f.Key) || strings.ContainsRune(f.Value.Text, 0) {
			return nil, fmt.Errorf("%s is no variable of an environment", f.Pos)
		}
		vars[f.Key] = f.Value.Text
	}
	return vars, nil
}

// lines parses NAME=value lines.
func lines(path, text string) (map[string]string, error) {
	vars := make(map[string]string)
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !named(name) || strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("%s:%d is not NAME=value; the name of an object of variables ends in .yaml", path, n)
		}
		if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		vars[name] = value
	}
	return vars, nil
}

// named reports whether name can be a variable's name.
func named(name string) bool { return name != "" && !strings.ContainsAny(name, " \t\"'=\x00") }
