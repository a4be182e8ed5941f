package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// goFiles yields the names of the Go files below dir that are part of the module.
func goFiles(t *testing.T, dir string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if base := filepath.Base(name); err == nil && e.IsDir() && name != dir &&
				(base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".")) {
				return fs.SkipDir
			}
			if err == nil && strings.HasSuffix(name, ".go") && !yield(name) {
				return fs.SkipAll
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func read(t *testing.T, name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// wallClock lists methods that return a time without its monotonic clock, or a wall clock time.
var wallClock = map[string]bool{
	"Date":            true,
	"Unix":            true,
	"UnixMilli":       true,
	"UnixMicro":       true,
	"UnixNano":        true,
	"Parse":           true,
	"ParseInLocation": true,
	"UTC":             true,
	"Local":           true,
	"In":              true,
	"AddDate":         true,
	"Truncate":        true,
}

// Setting the clock, or suspending the machine, ends no call and starts nothing: code that waits or compares uses the
// monotonic clock of [time.Now]. A test cannot set the machine's clock, so this one looks for calls that return times
// without a monotonic clock.
func TestNobodyReadsTheWallClock(t *testing.T) {
	allowed := map[string]string{
		"internal/wire/ndjson/transport.go":      "Unix", // a deadline that has passed by any clock
		"internal/proc/process/isolate_linux.go": "Unix", // the same

		"internal/testing/processtest/sharded.go": "Parse", // it parses flags, not times
	}
	for _, dir := range []string{
		"supervisor",
		"runtime",
		"internal/proc/process",
		"internal/wire/jsonrpc",
		"internal/wire/ndjson",
	} {
		for name := range goFiles(t, dir) {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if f, ok := call.Fun.(*ast.SelectorExpr); ok && wallClock[f.Sel.Name] &&
					allowed[filepath.ToSlash(name)] != f.Sel.Name {
					t.Errorf("%s: %s strips a time of its monotonic clock", set.Position(call.Pos()), f.Sel.Name)
				}
				return true
			})
		}
	}
}
