package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// undocumented are the aliases of the library into internal/ whose comment has to do: to declare them where they are
// used would take more than their comment.
var undocumented = map[string]bool{
	"config.Toolset":      true,
	"exthost.SkillFolder": true,
	"config.ByHand":       true,
	"config.Misfit":       true,
	"cluster.ByHand":      true,
	"runtime.Held":        true,
}

// TestAliasesIntoInternal checks that what the library exports is declared where its users read it. Documentation
// shows nothing of a type behind an alias into internal/.
func TestAliasesIntoInternal(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (name == "internal" || name == "cmd" || name == "test" || name == "bench" ||
			name == "docs" || name == "examples" || strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, name := range internalAliases(file) {
			if !undocumented[name] {
				t.Errorf("%s: %s is an alias into internal/, and its documentation shows nothing of it", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// internalAliases returns the exported aliases of a file for types of internal packages, as package.Name.
func internalAliases(file *ast.File) (names []string) {
	hidden := make(map[string]bool) // by the name that the file has for the package
	for _, i := range file.Imports {
		path := strings.Trim(i.Path.Value, `"`)
		if strings.Contains(path+"/", "/internal/") {
			name := path[strings.LastIndexByte(path, '/')+1:]
			if i.Name != nil {
				name = i.Name.Name
			}
			hidden[name] = true
		}
	}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, spec := range g.Specs {
			s := spec.(*ast.TypeSpec)
			of, ok := s.Type.(*ast.SelectorExpr)
			if ok && s.Assign.IsValid() && s.Name.IsExported() && hidden[of.X.(*ast.Ident).Name] {
				names = append(names, file.Name.Name+"."+s.Name.Name)
			}
		}
	}
	return names
}
