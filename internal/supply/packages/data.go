package packages

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/proc/process"
)

// Data is a variable that tells a program where to keep its data. The documented default is a relative path: the
// data would lie beside the code, which every user of the package shares, or in the working directory.
type Data struct {
	Name string // variable
	Path string // last element of the default
}

// stateVariable holds the extension's private directory.
const stateVariable = "EXTHOST_STATE_DIR"

// State is how a manifest refers to the extension's private directory.
const State = "${" + stateVariable + "}"

var (
	dataName = regexp.MustCompile(`\b[A-Z][A-Z0-9_]*_(?:PATH|FILE|DB|DATABASE|DIR|DIRECTORY|FOLDER)\b`)
	// notData matches variables for files that users write, not programs.
	notData = regexp.MustCompile(`CONFIG|SETTINGS|CREDENTIALS|CERT|KEY|SCHEMA|TEMPLATE`)
	// statedDefault matches a default after the word "default"; cellDefault matches one that fills a table cell.
	statedDefault = regexp.MustCompile("(?i)\\bdefaults?\\b[^`\"'\\w./\\\\~$]*" +
		"(?:(?:to|is|value|path|file|location)\\b[^`\"'\\w./\\\\~$]*)*[`\"']?([^\\s`\"'(),;|]+)")
	cellDefault = regexp.MustCompile("^[\\s`\"']*([^\\s`\"'(),;|]+)")
	plainF      = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9]+$`)
	plainD      = regexp.MustCompile(`^\.?[A-Za-z0-9_-]+$`)
)

// Bounds of names for data, in bytes.
const (
	maxData   = 64 // of a file or directory
	maxEnding = 11 // of a file's, with the dot; a longer one is rather a member, as in config.dataDirectory
)

const maxScanned = 64 << 20 // bytes of code searched for variables

// dataOf returns the data variables that docs documents for the package in dir.
func dataOf(dir, docs string) (list []Data) {
	found := documentedDefaults(docs)
	if len(found) == 0 {
		return nil
	}
	read, names := scan(dir, found)
	for name, value := range found {
		if read[name] && !names[value] { // a file that the package ships is not data
			list = append(list, Data{name, value})
		}
	}
	slices.SortFunc(list, func(a, b Data) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// documentedDefaults returns the relative defaults in docs by variable.
func documentedDefaults(docs string) map[string]string {
	found := map[string]string{}
	column := -1
	for line := range strings.Lines(docs) {
		cells := strings.Split(line, "|")
		column = defaultColumn(line, cells, column)
		for _, at := range dataName.FindAllStringIndex(line, -1) {
			name := line[at[0]:at[1]]
			m := statedDefault.FindStringSubmatch(line[at[1]:])
			if m == nil && column >= 0 && column < len(cells) {
				m = cellDefault.FindStringSubmatch(cells[column])
			}
			if m == nil || found[name] != "" || notData.MatchString(name) || process.LoadsCode(name) {
				continue
			}
			if value, ok := relativeDefault(name, m[1]); ok {
				found[name] = value
			}
		}
	}
	return found
}

// defaultColumn returns the column with the defaults in the table that the line belongs to; -1 outside of tables.
// column is the result for the line before.
func defaultColumn(line string, cells []string, column int) int {
	if len(cells) < 3 {
		return -1
	}
	n := slices.IndexFunc(cells, func(c string) bool { return strings.Contains(strings.ToLower(c), "default") })
	if n >= 0 && !dataName.MatchString(line) {
		return n
	}
	return column
}

// relativeDefault returns the last element of a default that is a relative path, to a file with an extension or to a
// directory.
func relativeDefault(name, value string) (string, bool) {
	clean := path.Clean(strings.TrimRight(filepath.ToSlash(value), ".:"))
	if path.IsAbs(clean) || strings.HasPrefix(clean, "..") || strings.ContainsAny(clean, "~$%<>:{}[]") {
		return "", false
	}
	base := path.Base(clean)
	if len(base) > maxData {
		return "", false
	}
	if strings.HasSuffix(name, "_DIR") || strings.HasSuffix(name, "_DIRECTORY") || strings.HasSuffix(name, "_FOLDER") {
		return base, base != "." && plainD.MatchString(base) &&
			(strings.Contains(value, "/") || strings.HasPrefix(base, "."))
	}
	return base, plainF.MatchString(base) && len(path.Ext(base)) <= maxEnding
}

// scan returns which variables the code in dir reads, and the names of all files and directories there. It skips
// node_modules.
func scan(dir string, variables map[string]string) (read, names map[string]bool) {
	read, names = map[string]bool{}, map[string]bool{}
	left := int64(maxScanned)
	// unreadable files yield no proposals
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
		code, _, err := file.ReadRegular(path, left, false)
		left -= int64(len(code))
		for name := range variables {
			read[name] = read[name] || bytes.Contains(code, []byte(name))
		}
		return err
	})
	return read, names
}

// readme returns the text of dir's README.md, or "".
func readme(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if strings.EqualFold(e.Name(), "README.md") {
			data, _, err := file.ReadRegular(filepath.Join(dir, e.Name()), maxPackageJSON, false)
			if err == nil {
				return string(data)
			}
		}
	}
	return ""
}
