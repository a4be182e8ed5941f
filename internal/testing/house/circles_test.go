package house

import (
	"bytes"
	"encoding/json"
	"errors"
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

// maxCircle is how many files of a package may refer to each other in a circle.
const maxCircle = 8

// exempt are the packages in which larger circles are wanted, and why.
var exempt = map[string]string{
	"runtime":               "one task, an instance of any kind, and the dialects share its state",
	"internal/proc/process": "one task on several systems, most of whose files are for one system each",
	"supervisor":            "one state machine: every file is a part of its one update",
}

// TestCircles bounds the circles of files in each package: to understand one file of a circle, one must read all.
func TestCircles(t *testing.T) {
	fset := token.NewFileSet()
	exports, packages := list(t)
	importer := importer.ForCompiler(fset, "gc",
		func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	used := make(map[string]bool)
	for _, p := range packages {
		name := name(p.ImportPath)
		if strings.HasPrefix(name, "examples") || strings.HasSuffix(name, "pluginv1") {
			continue // generated, or a program of its own
		}
		var files []*ast.File
		for _, file := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
		pkg, err := (&types.Config{Importer: importer}).Check(p.ImportPath, fset, files, info)
		if err != nil {
			t.Fatal(err)
		}
		circle := largestCircle(fset, pkg, files, info)
		if len(circle) <= maxCircle {
			continue
		}
		if used[name] = true; exempt[name] == "" {
			t.Errorf("%s: %d files refer to each other in a circle, at most %d may: %s", name, len(circle), maxCircle,
				strings.Join(circle, " "))
		}
	}
	for name := range exempt {
		if !used[name] {
			t.Errorf("%s is exempt and need not be", name)
		}
	}
}

type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles, Imports        []string
	Module                  *struct{ Main bool }
}

// list returns the export data of every package that ours depend on, and our packages.
func list(t *testing.T) (exports map[string]string, packages []goPackage) {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Imports,Module",
		"./...").Output()
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
