package packages

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/supply/marketplace"
	"github.com/exthost/exthost/internal/supply/store"
	"github.com/exthost/exthost/internal/text/display"
)

// Elsewhere is the error of a plugin that a marketplace lists and that lies in another repository or package.
type Elsewhere struct {
	Name   string
	Source Source
}

// Error implements [error].
func (e *Elsewhere) Error() string {
	return fmt.Sprintf("the plugin %s lies elsewhere, in %s", display.Cut(display.Visible(e.Name), 100), e.Source)
}

// folderPrefix begins the program of a source that is a folder in it.
const folderPrefix = "./"

// choice is what the program of a source means once its files are there.
type choice struct {
	program string              // to run; "" if a plugin or a folder was chosen
	listed  *marketplace.Plugin // the chosen plugin as its marketplace lists it
}

// choose narrows the tree to what the program of the source names: a plugin of the package's marketplace, or a folder
// of the package. It fails if a submodule would be in what is left, because submodules are not taken.
func choose(tree *store.Tree, first lock.Part, program string, submodules []string) (choice, error) {
	whole := choice{program: program}
	if program == "" || !isLocal(first) && !isGit(first) {
		return whole, withoutSubmodules(submodules, ".")
	}
	if strings.HasPrefix(program, folderPrefix) {
		dir := path.Clean(program)
		if !filepath.IsLocal(filepath.FromSlash(dir)) {
			return whole, fmt.Errorf("%q leads out of the package", program)
		}
		return choice{}, narrow(tree, dir, submodules)
	}
	m, err := marketplace.Read(tree.Dir())
	if errors.Is(err, marketplace.ErrNone) {
		return whole, withoutSubmodules(submodules, ".")
	}
	if err != nil {
		return whole, err
	}
	p, err := m.Find(program)
	switch {
	case err != nil && formOf(tree.Dir()) == formNode && !m.Lists(program):
		return whole, withoutSubmodules(submodules, ".")
	case err != nil:
		return whole, err
	case p.Source.Git != "" || p.Source.NPM != "":
		return whole, elsewhere(p)
	}
	return choice{listed: p}, narrow(tree, p.Source.Dir, submodules)
}

// withoutSubmodules returns an error if a submodule is in dir.
func withoutSubmodules(submodules []string, dir string) error {
	for _, name := range submodules {
		if dir == "." || strings.HasPrefix(name+"/", dir+"/") {
			return fmt.Errorf("%q is a submodule: another repository, which is not taken", name)
		}
	}
	return nil
}

func narrow(tree *store.Tree, dir string, submodules []string) error {
	if err := withoutSubmodules(submodules, dir); err != nil {
		return err
	}
	return tree.Narrow(dir)
}

// elsewhere returns the error of a plugin that lies elsewhere.
func elsewhere(p *marketplace.Plugin) error {
	if p.Alone {
		return fmt.Errorf("the list alone says what the plugin %s has (\"strict\": false), and its files are "+
			"elsewhere: clone them, and add the folder", display.Cut(display.Visible(p.Name), 100))
	}
	s, err := Parse(p.Source.String())
	if err != nil {
		return err
	}
	return &Elsewhere{Name: p.Name, Source: s}
}
