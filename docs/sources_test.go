package docs_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// parse reads one Go file of the checkout.
func parse(t testing.TB, path string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// constants returns the constants of a file, with the comment behind each, in the
// order of the file.
func constants(t testing.TB, path string) (list []constant) {
	t.Helper()
	ast.Inspect(parse(t, path), func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Names) != 1 || len(v.Values) != 1 {
			return true
		}
		if lit, ok := v.Values[0].(*ast.BasicLit); ok {
			list = append(list, constant{v.Names[0].Name, strings.Trim(lit.Value, `"`), cmp.Or(comment(v.Comment), comment(v.Doc))})
		}
		return true
	})
	return list
}

type constant struct{ name, value, comment string }

func comment(g *ast.CommentGroup) string { return strings.Join(strings.Fields(g.Text()), " ") }

// fieldComments returns the comments behind the fields of a struct, or above them.
func fieldComments(t testing.TB, path, structName string) map[string]string {
	t.Helper()
	comments := map[string]string{}
	ast.Inspect(parse(t, path), func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != structName {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			for _, name := range f.Names {
				comments[name.Name] = cmp.Or(comment(f.Comment), comment(f.Doc))
			}
		}
		return false
	})
	if len(comments) == 0 {
		t.Fatalf("%s has no struct %s", path, structName)
	}
	return comments
}

// runtimeFields returns default and meaning of each key of [runtime]: the defaults
// are those that an extension gets, the meanings the comments beside them.
func runtimeFields(t testing.TB) map[string][2]string {
	t.Helper()
	const file = "manifest/runtime.go"
	fields := map[string][2]string{}
	o := manifest.Runtime{}.Resolve(manifest.Transport{Kind: manifest.KindStdio, Protocol: manifest.ProtocolNative})
	add := func(prefix string, stated reflect.Type, resolved reflect.Value, comments map[string]string) {
		for f := range stated.Fields() {
			value := resolved.FieldByName(f.Name)
			if value.Kind() == reflect.Struct {
				continue
			}
			meaning := comments[f.Name]
			if meaning == fmt.Sprint(value) {
				meaning = "" // that is the default, and the key's own comment says more
			}
			fields[prefix+f.Tag.Get("toml")] = [2]string{spelled(value), meaning}
		}
	}
	add("runtime.", reflect.TypeFor[manifest.Runtime](), reflect.ValueOf(o), fieldComments(t, file, "Options"))
	add("runtime.restart.", reflect.TypeFor[manifest.Restart](), reflect.ValueOf(o.Restart),
		fieldComments(t, file, "RestartOptions"))
	for f, comment := range fieldComments(t, file, "Limits") {
		fields["runtime.limits."+snake(f)] = [2]string{"no limit", comment}
	}
	return fields
}

// spelled writes a value as a manifest would state it.
func spelled(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Duration:
		text := value.String()
		if value%time.Minute == 0 && value > 0 {
			text = strings.TrimSuffix(text, "0s")
		}
		return "`" + text + "`"
	case int:
		return "`" + number(int64(value)) + "`"
	}
	return fmt.Sprintf("`%v`", v.Interface())
}

// kindsTable is every kind of error with its code and its moment.
func kindsTable(t testing.TB) string {
	moments := map[string]string{}
	for _, c := range constants(t, "protocol/errors.go") {
		moments[c.value] = c.comment
	}
	var b strings.Builder
	b.WriteString("| kind | code | when |\n|---|---|---|\n")
	for _, k := range protocol.Kinds() {
		code := fmt.Sprint(k.Code())
		if k == protocol.ExtensionError {
			code += ", or the extension's own"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k, code, cell(moments[string(k)]))
	}
	return b.String()
}

// pointsTable is every point at which hooks run, with what commands are told it is
// called.
func pointsTable(t testing.TB) string {
	moments := map[string]string{}
	for _, c := range constants(t, "hooks/hooks.go") {
		moments[c.value] = c.comment
	}
	var b strings.Builder
	b.WriteString("| point | for commands | |\n|---|---|---|\n")
	for _, p := range hooks.Points() {
		if moments[string(p)] == "" {
			t.Errorf("%s has no comment", p)
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", p, p.CommandName(), cell(moments[string(p)]))
	}
	return b.String()
}

// exitCodes is the table of what the program exits with.
func exitCodes(t testing.TB) string {
	var b strings.Builder
	b.WriteString("| code | when |\n|---|---|\n")
	for _, c := range constants(t, "internal/cli/console/exit.go") {
		if name, ok := strings.CutPrefix(c.name, "Exit"); ok {
			fmt.Fprintf(&b, "| %s | %s |\n", c.value,
				cell(cmp.Or(c.comment, strings.ReplaceAll(snake(name), "_", " "))))
		}
	}
	return b.String()
}
