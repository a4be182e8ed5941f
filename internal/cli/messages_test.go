package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// prose are words that follow the name of the program in sentences about it.
var prose = []string{"runs", "finds", "only", "and", "or", "is", "was", "has", "in", "of", "on", "to", "version",
	"itself", "that", "there", "here", "does", "can", "cannot", "waits", "wrote", "program"}

var (
	named = regexp.MustCompile(`\bexthost((?: +-{0,2}[a-z][a-z-]*)+)`)
	// in pages: what stands in backquotes, which a line may break, or behind a prompt
	quoted   = regexp.MustCompile("`exthost((?:\\s+-{0,2}[a-z][a-z-]*)+)")
	prompted = regexp.MustCompile(`(?m)^\$ exthost((?: +-{0,2}[a-z][a-z-]*)+)`)
)

// Every command that a message, a page, the dashboard or an SDK names exists, with its flags.
func TestNamedCommandsExist(t *testing.T) {
	cmd := whole()
	cmd.InitDefaultVersionFlag()
	seen := 0
	check := func(place string, form *regexp.Regexp, text string) {
		for _, m := range form.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(m[1])
			if slices.Contains(prose, words[0]) || strings.HasPrefix(words[0], "-") && words[0] != "--version" {
				continue
			}
			seen++
			if wrong := wrongWord(cmd, words); wrong != "" {
				t.Errorf("%s: exthost %s: there is no %s", place, strings.Join(words, " "), wrong)
			}
		}
	}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name := d.Name(); name == "testdata" || name == "node_modules" || name == ".git" {
				return filepath.SkipDir
			}
			return nil
		case strings.HasSuffix(path, "_test.go"):
			return nil
		}
		switch filepath.Ext(path) {
		case ".go":
			for _, text := range literals(t, path) {
				check(path, named, text)
			}
		case ".js", ".mjs", ".py", ".tmpl":
			text, err := os.ReadFile(path)
			check(path, named, string(text))
			return err
		case ".md":
			text, err := os.ReadFile(path)
			check(path, quoted, string(text))
			check(path, prompted, string(text))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 500 {
		t.Errorf("only %d commands were found", seen)
	}
}

// literals returns the strings of a Go file. The parts of a concatenation are one string.
func literals(t *testing.T, path string) (list []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var value func(ast.Expr) string
	value = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			text, _ := strconv.Unquote(e.Value) // fails for numbers
			return text
		case *ast.BinaryExpr:
			return value(e.X) + value(e.Y)
		}
		return "\x00" // a variable
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			list = append(list, value(n))
		case *ast.BinaryExpr:
			list = append(list, value(n))
			return n.Op != token.ADD
		}
		return true
	})
	return list
}

// wrongWord returns the first of the words that is no command or flag; "" if all are. Words behind a command that takes
// arguments are arguments.
func wrongWord(cmd *cobra.Command, words []string) string {
	arguments := false
	for _, word := range words {
		if name, ok := strings.CutPrefix(word, "--"); ok {
			cmd.InitDefaultHelpFlag()
			if name != "" && cmd.Flag(name) == nil {
				return "flag " + word
			}
			continue
		}
		if strings.HasPrefix(word, "-") || arguments {
			continue
		}
		at := slices.IndexFunc(cmd.Commands(), func(sub *cobra.Command) bool { return sub.Name() == word })
		switch {
		case at >= 0:
			cmd = cmd.Commands()[at]
		case cmd.HasSubCommands() && cmd.ValidateArgs([]string{word}) != nil:
			return "command " + word
		default:
			arguments = true
		}
	}
	return ""
}
