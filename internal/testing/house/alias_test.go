package house

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// undocumented are the aliases of the library into internal/ that stay: their comments say enough, and to declare the
// types where they are used would take more than that.
var undocumented = map[string]bool{
	"config.Toolset":          true,
	"config.ShownTool":        true,
	"config.ShownArg":         true,
	"config.ShownAnnotations": true,
	"config.ShownResult":      true,
	"exthost.SkillFolder":     true,
	"config.ByHand":           true,
	"config.Misfit":           true,
	"cluster.ByHand":          true,
	"runtime.Held":            true,
}

// unpublished are the folders whose packages no other module imports.
var unpublished = []string{"bench", "cmd", "docs", "examples", "internal", "test"}

// TestAliasesIntoInternal checks that what the library exports is declared where its users read it. Documentation
// shows nothing of a type behind an alias into internal/.
func TestAliasesIntoInternal(t *testing.T) {
	for path := range goFiles(t, ".") {
		area, _, _ := strings.Cut(filepath.ToSlash(path), "/")
		if slices.Contains(unpublished, area) || strings.HasSuffix(path, "_test.go") {
			continue
		}
		_, file := parse(t, path)
		for _, name := range internalAliases(file) {
			if !undocumented[name] {
				t.Errorf("%s: %s is an alias into internal/, and its documentation shows nothing of it", path, name)
			}
		}
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
