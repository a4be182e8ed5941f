package packages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/supply/marketplace"
	"github.com/exthost/exthost/internal/supply/store"
	"github.com/exthost/exthost/manifest/agentplugin"
)

// maxPackageJSON limits a package.json, in bytes.
const maxPackageJSON = 4 << 20

// Root is how a manifest refers to the directory of the package's files.
const Root = "${" + lock.Variable + "}"

// Run is how a package is run, and its metadata.
type Run struct {
	Command     string // node, python3 or a program of the package
	Args        []string
	Env         map[string]string
	Asks        []string // variables that the user has to set
	Description string
	License     string
	Homepage    string
	Version     string // stated in its files
	Server      string // its name in the MCP registry; npm and PyPI only
	Data        []Data // variables for its data; npm and PyPI only

	// Plugin is the package as a plugin, which its own files say how to run; nil for a program.
	Plugin *agentplugin.Plugin
	Notes  []string // what of a plugin in the format of another program is left out
}

// packageJSON holds the fields of a package.json that are used.
type packageJSON struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Description string            `json:"description"`
	License     any               `json:"license"`
	Homepage    string            `json:"homepage"`
	MCPName     string            `json:"mcpName"` // name in the MCP registry
	Bin         any               `json:"bin"`
	Scripts     map[string]string `json:"scripts"`

	Dependencies map[string]string `json:"dependencies"`
}

func readPackageJSON(dir string) (*packageJSON, error) {
	data, _, err := file.ReadRegular(filepath.Join(dir, "package.json"), maxPackageJSON+1, false)
	if err != nil {
		return nil, err
	}
	p := new(packageJSON)
	if len(data) > maxPackageJSON {
		return nil, fmt.Errorf("package.json is over %d MiB", maxPackageJSON>>20)
	}
	if err := json.Unmarshal(data, p); err != nil {
		place := "package.json"
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			place += ":" + strconv.Itoa(1+bytes.Count(data[:syntax.Offset], []byte("\n")))
		}
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	return p, nil
}

// installs reports whether npm would run install scripts for the package.
func (p *packageJSON) installs(dir string) bool {
	if p.Scripts["preinstall"]+p.Scripts["install"]+p.Scripts["postinstall"] != "" {
		return true
	}
	_, err := os.Lstat(filepath.Join(dir, "binding.gyp")) // npm then runs node-gyp
	return err == nil
}

// bin returns the path of a program of the package. wanted is its name; "" for the only program, or the one with the
// package's name.
func (p *packageJSON) bin(wanted string) (clean string, err error) {
	short := p.Name[strings.LastIndexByte(p.Name, '/')+1:]
	bin, _ := p.Bin.(map[string]any)
	if path, ok := p.Bin.(string); ok {
		bin = map[string]any{short: path}
	}
	named := slices.Sorted(maps.Keys(bin))
	if len(named) == 1 {
		short = named[0]
	}
	short = cmp.Or(wanted, short)
	program, _ := bin[short].(string)
	if program == "" && len(named) > 0 {
		return "", noProgram(named, short)
	}
	if program == "" {
		return "", fmt.Errorf("the package has no program: its package.json states no bin")
	}
	clean = path.Clean(strings.TrimPrefix(filepath.ToSlash(program), "./"))
	if !filepath.IsLocal(filepath.FromSlash(clean)) || strings.ContainsAny(clean, "\\:$") {
		return "", fmt.Errorf("its program %q lies outside of the package", program)
	}
	return clean, nil
}

// complete adds the files and modes that a package needs to run.
func complete(tree *store.Tree, parts []lock.Part, program string) error {
	if isWheel(parts[0]) {
		return addLauncher(tree, parts, program)
	}
	switch formOfParts(tree.Dir(), parts) {
	case formPlugin, formTranslated:
		return makeServersExecutable(tree.Dir())
	case formBundle:
		return makeExecutable(tree.Dir())
	}
	return nil
}

// formOfParts returns the form of an assembled package. A wheel, and a package below its root as npm places it, is of
// none of the forms.
func formOfParts(dir string, parts []lock.Part) form {
	if isWheel(parts[0]) || parts[0].Path != "" {
		return ""
	}
	return formOf(dir)
}

// describePackage returns how a program of the first part's package is run, or what the package is as a plugin.
func describePackage(dir string, parts []lock.Part, program string) (Run, error) {
	if isWheel(parts[0]) {
		return describeWheel(dir, parts[0], program)
	}
	form := formOfParts(dir, parts)
	switch {
	case program != "" && (form == formPlugin || form == formTranslated || form == formBundle):
		return Run{}, fmt.Errorf("a %s has no programs to choose from, and %q is named", form, program)
	case form == formPlugin || form == formTranslated:
		return describePlugin(dir)
	case form == formBundle:
		return describeBundle(dir)
	}
	return describeNode(dir, parts[0].Path, program)
}

func describeNode(dir, at, program string) (Run, error) {
	own := filepath.Join(dir, filepath.FromSlash(at))
	p, err := readPackageJSON(own)
	if errors.Is(err, fs.ErrNotExist) {
		if m, err := marketplace.Read(own); err == nil {
			return Run{}, fmt.Errorf("it is a list of %d plugins: --list shows them, SOURCE#NAME adds one",
				len(m.Plugins))
		}
		err := fmt.Errorf("in its root there is no %s of Agent Plugins, no %s and no package.json, one of which would "+
			"say what it runs", agentplugin.FileName, bundleFile)
		if _, missing := os.Lstat(filepath.Join(own, agentplugin.FileName)); missing == nil {
			err = fmt.Errorf("%w; of its %s: %s", err, agentplugin.FileName, rejection(ReadPlugin(own)))
		}
		return Run{}, err
	}
	if err != nil {
		return Run{}, err
	}
	bin, err := p.bin(program)
	if err != nil {
		return Run{}, err
	}
	main := path.Join(at, bin)
	f, _, err := file.OpenRegular(filepath.Join(dir, filepath.FromSlash(main)), os.O_RDONLY, 0)
	if err != nil {
		return Run{}, fmt.Errorf("its program %s is not in the package", bin)
	}
	defer f.Close()
	head := make([]byte, 128)
	n, _ := f.Read(head) // 0 for an empty program
	first, _, _ := strings.Cut(string(head[:n]), "\n")
	if ext := path.Ext(bin); ext != ".js" && ext != ".mjs" && ext != ".cjs" &&
		!(strings.HasPrefix(first, "#!") && strings.Contains(first, "node")) {
		return Run{}, fmt.Errorf("its program %s is not one that node runs", bin)
	}
	license, _ := p.License.(string)
	return Run{
		Command:     "node",
		Args:        []string{Root + "/" + main},
		Description: p.Description,
		License:     license,
		Homepage:    p.Homepage,
		Version:     p.Version,
		Server:      p.MCPName,
		Data:        dataOf(own, readme(own)),
	}, nil
}
