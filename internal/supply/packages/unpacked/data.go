package unpacked

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/file/regular"
	"github.com/exthost/exthost/internal/proc/process"
)

// Data is a variable that says where a program keeps its data. The program reads it, and its README
// documents it with a relative path as default: a place beside the code, which belongs to all who
// run the package, or where the program starts.
type Data struct {
	Name string // of the variable
	Path string // the last element of the default
}

// stateVariable holds the directory that belongs to one extension.
const stateVariable = "EXTHOST_STATE_DIR"

// State is how a manifest refers to that directory.
const State = "${" + stateVariable + "}"

var (
	dataName = regexp.MustCompile(`\b[A-Z][A-Z0-9_]*_(?:PATH|FILE|DB|DATABASE|DIR|DIRECTORY|FOLDER)\b`)
	// notData are names of files that users write, not programs.
	notData = regexp.MustCompile(`CONFIG|SETTINGS|CREDENTIALS|CERT|KEY|SCHEMA|TEMPLATE`)
	// stated is what follows the word default, or is all of a cell of a table.
	stated = regexp.MustCompile("(?i)\\bdefaults?\\b[^`\"'\\w./\\\\~$]*" +
		"(?:(?:to|is|value|path|file|location)\\b[^`\"'\\w./\\\\~$]*)*[`\"']?([^\\s`\"'(),;|]+)")
	cell   = regexp.MustCompile("^[\\s`\"']*([^\\s`\"'(),;|]+)")
	plainF = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_-]{0,60}\.[A-Za-z0-9]{1,10}$`)
	plainD = regexp.MustCompile(`^\.?[A-Za-z0-9_-]{1,60}$`)
)

const maxScanned = 64 << 20 // bytes of code that are searched for the name of a variable

// dataOf returns the variables of a package in dir that docs documents.
func dataOf(dir, docs string) (list []Data) {
	found := map[string]string{}
	column := -1 // of the defaults in a table
	for line := range strings.Lines(docs) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			column = -1
		} else if n := slices.IndexFunc(cells,
			func(c string) bool { return strings.Contains(strings.ToLower(c), "default") }); n >= 0 &&
			!dataName.MatchString(line) {
			column = n
		}
		for _, at := range dataName.FindAllStringIndex(line, -1) {
			name := line[at[0]:at[1]]
			m := stated.FindStringSubmatch(line[at[1]:])
			if m == nil && column >= 0 && column < len(cells) {
				m = cell.FindStringSubmatch(cells[column])
			}
			if m == nil || found[name] != "" || notData.MatchString(name) || process.LoadsCode(name) {
				continue
			}
			if value, ok := relative(name, m[1]); ok {
				found[name] = value
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	read, names := scan(dir, found)
	for name, value := range found {
		if read[name] && !names[value] { // what the package brings is no data
			list = append(list, Data{name, value})
		}
	}
	slices.SortFunc(list, func(a, b Data) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// relative returns the last element of a default that is a relative path, of a file with an ending or
// of a directory.
func relative(name, value string) (string, bool) {
	clean := path.Clean(strings.TrimRight(filepath.ToSlash(value), ".:"))
	if path.IsAbs(clean) || strings.HasPrefix(clean, "..") || strings.ContainsAny(clean, "~$%<>:{}[]") {
		return "", false
	}
	base := path.Base(clean)
	if strings.HasSuffix(name, "_DIR") || strings.HasSuffix(name, "_DIRECTORY") || strings.HasSuffix(name, "_FOLDER") {
		return base, base != "." && plainD.MatchString(base) &&
			(strings.Contains(value, "/") || strings.HasPrefix(base, "."))
	}
	return base, plainF.MatchString(base)
}

// scan returns which of the variables the code in dir reads, and the names of all files and directories
// there; not those of other packages.
func scan(dir string, variables map[string]string) (read, names map[string]bool) {
	read, names = map[string]bool{}, map[string]bool{}
	left := int64(maxScanned)
	// what cannot be read proposes nothing
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if d.IsDir() && d.Name() == "node_modules" {
			return fs.SkipDir
		}
		names[d.Name()] = true
		if d.IsDir() || !slices.Contains([]string{".js", ".mjs", ".cjs", ".ts", ".py"}, filepath.Ext(path)) ||
			left <= 0 {
			return nil
		}
		code, _, err := regular.Read(path, left, false)
		left -= int64(len(code))
		for name := range variables {
			read[name] = read[name] || bytes.Contains(code, []byte(name))
		}
		return err
	})
	return read, names
}

// readme returns the text of the README in dir; "" without one.
func readme(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if strings.EqualFold(e.Name(), "README.md") {
			data, _, err := regular.Read(filepath.Join(dir, e.Name()), MaxPackageJSON, false)
			if err == nil {
				return string(data)
			}
		}
	}
	return ""
}
