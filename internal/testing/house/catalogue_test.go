package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/testing/hosttest"
)

// catalogue lists the rows of the fault catalogue by chapter, as inclusive ranges: F, faults at the fronts, and T,
// threats from outside and from tools. Each row is in the name of a test, or a line of docs/decisions.md tells why it
// has none.
var catalogue = map[string][][2]int{
	"F": {{1, 1}, {6, 6}},
	"T": {{5, 6}, {12, 12}, {14, 19}},
}

func TestEveryFaultHasItsTest(t *testing.T) {
	tests := regexp.MustCompile(`(?m)^func Test((?:[A-Z][0-9]+)+)[A-Z_]\w*\(t \*testing\.T\)`)
	code := regexp.MustCompile(`[A-Z][0-9]+`)
	tested := make(map[string]bool)
	for name := range goFiles(t, ".") {
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range tests.FindAllStringSubmatch(hosttest.ReadFile(t, name), -1) {
				for _, row := range code.FindAllString(m[1], -1) {
					tested[row] = true
				}
			}
		}
	}
	decisions := hosttest.ReadFile(t, "docs/decisions.md")
	check := func(row string) {
		if excused := regexp.MustCompile(`(?m)^- ` + row + `\b`).MatchString(decisions); tested[row] == excused {
			t.Errorf("%s: has a test %v, and docs/decisions.md says why not %v", row, tested[row], excused)
		}
	}
	for chapter, ranges := range catalogue {
		for _, rows := range ranges {
			for n := rows[0]; n <= rows[1]; n++ {
				check(fmt.Sprint(chapter, n))
			}
		}
	}
}

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

// wallClock are the ways to a time that does not know how long ago it was: a clock
// that is set moves it.
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

// R11: a clock that is set and a machine that sleeps end no call and start nothing.
// Whatever waits, counts or compares reads the monotonic clock, which [time.Now]
// carries along until something strips it; and nothing here does. (A clock that
// everybody uses cannot be set by a test.)
func TestR11NobodyReadsTheWallClock(t *testing.T) {
	allowed := map[string]string{
		"internal/wire/ndjson/transport.go":      "Unix", // a deadline that has passed by any clock
		"internal/proc/process/isolate_linux.go": "Unix", // the same

		"internal/testing/processtest/sharded.go": "Parse", // of flags
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
