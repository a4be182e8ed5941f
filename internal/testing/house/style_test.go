package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxColumns = 120 // of a line; a tab counts as four
	maxPaths   = 15  // through a function: 1, and 1 more for each branch
)

// TestLinesEndBeforeColumn120 looks at code and comments. Generated code, rows of tables, tags of fields, outputs of
// examples, documents in raw strings, and raw strings of tests may be longer.
func TestLinesEndBeforeColumn120(t *testing.T) {
	for name := range goFiles(t, ".") {
		set, file := parse(t, name)
		if ast.IsGenerated(file) {
			continue
		}
		exempt := make(map[int]bool) // lines, by number
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				l := set.Position(n.End()).Line
				exempt[l] = exempt[l] || n.Tag != nil
			case *ast.BasicLit:
				first, last := set.Position(n.Pos()).Line, set.Position(n.End()).Line
				document := strings.HasPrefix(n.Value, "`") && (first < last || strings.HasSuffix(name, "_test.go"))
				for l := first; l <= last; l++ {
					exempt[l] = exempt[l] || document
				}
			case *ast.KeyValueExpr:
				if text, ok := n.Value.(*ast.BasicLit); ok && text.Kind == token.STRING {
					exempt[set.Position(n.Pos()).Line] = true
				}
			}
			return true
		})
		for _, group := range file.Comments { // the output of examples
			if strings.HasPrefix(group.Text(), "Output:") {
				for l := set.Position(group.Pos()).Line; l <= set.Position(group.End()).Line; l++ {
					exempt[l] = true
				}
			}
		}
		for i, line := range strings.Split(read(t, name), "\n") {
			columns := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
			if columns > maxColumns && !exempt[i+1] {
				t.Errorf("%s:%d: has %d columns, at most %d", name, i+1, columns, maxColumns)
			}
		}
	}
}

// TestFunctionsAreSimple bounds the branches of functions that are not tests.
func TestFunctionsAreSimple(t *testing.T) {
	for name := range goFiles(t, ".") {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "internal/testing/") {
			continue
		}
		set, file := parse(t, name)
		if ast.IsGenerated(file) {
			continue
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && paths(f) > maxPaths {
				t.Errorf("%s: %s has %d paths, at most %d", set.Position(f.Pos()), f.Name.Name, paths(f), maxPaths)
			}
		}
	}
}

// paths returns the cyclomatic complexity of a function, without its function literals.
func paths(f *ast.FuncDecl) int {
	n := 1
	ast.Inspect(f, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncLit:
			return false
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

func parse(t *testing.T, name string) (*token.FileSet, *ast.File) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return set, file
}
