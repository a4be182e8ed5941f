package exthost_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The bounds of packages and types. A package that outgrows them is two packages; a type
// that does has more than one task.
const (
	maxLines   = 2000 // of a package, without tests
	maxFiles   = 16   // of a package, without tests
	maxMethods = 25   // of a type
	maxFields  = 20   // of a struct
	maxCircle  = 8    // files of a package that refer to each other in a circle
	maxMain    = 60   // lines of cmd/exthost
)

// exempt are the places where a bound does not hold, and why.
var exempt = map[string]string{
	"runtime lines":                  "one task, an instance of any kind, and the dialects share its state",
	"runtime files":                  "one task, an instance of any kind, and the dialects share its state",
	"runtime circle":                 "one task, an instance of any kind, and the dialects share its state",
	"runtime.child fields":           "the one state of a running child",
	"runtime.child methods":          "the one state of a running child",
	"runtime.Spec fields":            "data: what an instance is run with",
	"internal/process lines":         "one task on several systems, most of whose files are for one system each",
	"internal/process files":         "one task on several systems, most of whose files are for one system each",
	"internal/process circle":        "one task on several systems, most of whose files are for one system each",
	"supervisor circle":              "one state machine: every file is a part of its one update",
	"supervisor.Group methods":       "one state machine: every file is a part of its one update",
	"internal/jsonrpc.Conn methods":  "one state, changed by one update",
	"governance.Spec fields":         "data: the keys of a policy in a file",
	"config.Config fields":           "data: the sections of a file",
	"governance/audit.Record fields": "data: the members of a line in a file",
	"status.Extension fields":        "data: the members of a JSON object",
	"httpserver.Options fields":      "data: what a server is given",
	".Options fields":                "data: what a host is given",
}

// TestBounds holds packages and types against the bounds.
func TestBounds(t *testing.T) {
	fset := token.NewFileSet()
	exports, packages := list(t)
	importer := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	used := make(map[string]bool)
	check := func(place string, n, most int, about ...string) {
		if n <= most {
			return
		}
		if exempt[place] == "" {
			t.Errorf("%s: %d, at most %d %s", place, n, most, strings.Join(about, " "))
		}
		used[place] = true
	}
	for _, p := range packages {
		name := ours(p.ImportPath)
		if strings.HasPrefix(name, "examples") || strings.HasSuffix(name, "pluginv1") {
			continue // generated, or a program of its own
		}
		var files []*ast.File
		lines := 0
		for _, file := range p.GoFiles {
			path := filepath.Join(p.Dir, file)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines += bytes.Count(text, []byte("\n"))
			f, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		check(name+" lines", lines, maxLines)
		check(name+" files", len(files), maxFiles)
		if name == "cmd/exthost" {
			check("cmd/exthost main", lines, maxMain)
		}
		info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
		pkg, err := (&types.Config{Importer: importer}).Check(p.ImportPath, fset, files, info)
		if err != nil {
			t.Fatal(err)
		}
		circle := largestCircle(fset, pkg, files, info)
		check(name+" circle", len(circle), maxCircle, circle...)
		for _, id := range pkg.Scope().Names() {
			if named, ok := pkg.Scope().Lookup(id).Type().(*types.Named); ok && pkg.Scope().Lookup(id).Pkg() == pkg {
				check(fmt.Sprintf("%s.%s methods", name, id), named.NumMethods(), maxMethods)
				if s, ok := named.Underlying().(*types.Struct); ok {
					check(fmt.Sprintf("%s.%s fields", name, id), s.NumFields(), maxFields)
				}
			}
		}
	}
	for place := range exempt {
		if !used[place] {
			t.Errorf("%s is exempt and need not be", place)
		}
	}
}

type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Main bool }
}

// list returns the export data of every package that ours depend on, and our packages.
func list(t *testing.T) (exports map[string]string, packages []goPackage) {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	exports = make(map[string]string)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return exports, packages
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Main {
			packages = append(packages, p)
		}
	}
}

// largestCircle returns the files of the largest set in which every file refers, directly
// or through others, to every other. A file refers to the file that declares a function, a
// method, a type, a variable or a constant that it names.
func largestCircle(fset *token.FileSet, pkg *types.Package, files []*ast.File, info *types.Info) (largest []string) {
	refers := make(map[string]map[string]bool)
	for _, f := range files {
		refers[fset.File(f.Pos()).Name()] = make(map[string]bool)
	}
	for id, object := range info.Uses {
		method, _ := object.(*types.Func)
		if object.Pkg() == pkg && (object.Parent() == pkg.Scope() || method != nil) {
			refers[fset.File(id.Pos()).Name()][fset.File(object.Pos()).Name()] = true
		}
	}
	reach := make(map[string]map[string]bool)
	for from := range refers {
		reach[from] = make(map[string]bool)
		for next := []string{from}; len(next) > 0; next = next[1:] {
			for to := range refers[next[0]] {
				if !reach[from][to] {
					reach[from][to] = true
					next = append(next, to)
				}
			}
		}
	}
	for from := range refers {
		circle := []string{filepath.Base(from)}
		for to := range reach[from] {
			if to != from && reach[to][from] {
				circle = append(circle, filepath.Base(to))
			}
		}
		if len(circle) > len(largest) {
			largest = circle
		}
	}
	slices.Sort(largest)
	return largest
}
