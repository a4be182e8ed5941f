package packages

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/file"
)

// bundle holds the fields of bundleFile that are used.
type bundle struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description"`
	License     string `json:"license"`
	Homepage    string `json:"homepage"`
	Server      struct {
		Type   string `json:"type"`
		Config struct {
			bundleCommand
			Overrides map[string]bundleCommand `json:"platform_overrides"`
		} `json:"mcp_config"`
	} `json:"server"`
	Compatibility struct {
		Platforms []string `json:"platforms"`
	} `json:"compatibility"`
	UserConfig map[string]struct {
		Required bool `json:"required"`
		Default  any  `json:"default"`
	} `json:"user_config"`
}

type bundleCommand struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

var placeholder = regexp.MustCompile(`\$\{[^}]*\}?`)

// platform returns this system's name in bundles.
func platform() string {
	if goruntime.GOOS == "windows" {
		return "win32"
	}
	return goruntime.GOOS
}

// readBundle reads a bundle's manifest and applies this platform's overrides.
func readBundle(dir string) (*bundle, error) {
	data, _, err := file.ReadRegular(filepath.Join(dir, bundleFile), maxPackageJSON, false)
	if err != nil {
		return nil, err
	}
	b := new(bundle)
	if err := json.Unmarshal(data, b); err != nil {
		return nil, fmt.Errorf("%s: %w", bundleFile, err)
	}
	if p := b.Compatibility.Platforms; len(p) > 0 && !slices.Contains(p, platform()) {
		return nil, fmt.Errorf("it is made for %s, and this is %s", strings.Join(p, ", "), platform())
	}
	c := &b.Server.Config
	if here, ok := c.Overrides[platform()]; ok {
		c.Command = cmp.Or(here.Command, c.Command)
		if here.Args != nil {
			c.Args = here.Args
		}
		if here.Env != nil {
			c.Env = here.Env
		}
	}
	return b, nil
}

// program returns the program of a bundle of type binary, as a path in the bundle; "" for other types.
func (b *bundle) program(dir string) (string, error) {
	if b.Server.Type != "binary" {
		return "", nil
	}
	name, ok := strings.CutPrefix(b.Server.Config.Command, "${__dirname}/")
	if !ok {
		name = strings.TrimPrefix(name, "./")
	}
	name = path.Clean(name)
	if !filepath.IsLocal(filepath.FromSlash(name)) || strings.ContainsAny(name, "\\:$") {
		return "", fmt.Errorf("its program %q lies outside of the bundle", b.Server.Config.Command)
	}
	names := []string{name}
	if goruntime.GOOS == "windows" {
		names = append(names, name+".exe")
	}
	for _, name := range names {
		if info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name))); err == nil && info.Mode().IsRegular() {
			return name, nil
		}
	}
	return "", fmt.Errorf("its program %s is not in the bundle", name)
}

// makeExecutable makes a bundle's program executable, because not every zip file records modes.
func makeExecutable(dir string) error {
	b, err := readBundle(dir)
	if err != nil {
		return err
	}
	program, err := b.program(dir)
	if err != nil || program == "" {
		return err
	}
	return os.Chmod(filepath.Join(dir, filepath.FromSlash(program)), 0o555)
}

// command returns the program that a bundle starts.
func (b *bundle) command(dir string) (string, error) {
	program, err := b.program(dir)
	switch c, kind := b.Server.Config.Command, b.Server.Type; {
	case err != nil:
		return "", err
	case program != "":
		return Root + "/" + program, nil
	case kind == "uv" || c == "uv" || c == "uvx" || c == "npx":
		return "", fmt.Errorf("its server of type %q would fetch what it needs when it starts, which no hash locks; "+
			"exthost add npm:NAME or pypi:NAME adds a package with all that it needs", kind)
	case kind == "node" && c == "node":
		return "node", nil
	case kind == "python" && (c == "python" || c == "python3"):
		return "python3", nil
	default:
		return "", fmt.Errorf("its server of type %q runs %q; node, python and a program of the bundle (type binary) "+
			"are run", kind, c)
	}
}

// describeBundle returns how a bundle is run. User configuration becomes environment variables.
func describeBundle(dir string) (Run, error) {
	b, err := readBundle(dir)
	if err != nil {
		return Run{}, err
	}
	r := Run{
		Env:         map[string]string{},
		Description: b.Description,
		License:     b.License,
		Homepage:    b.Homepage,
		Version:     b.Version,
	}
	if r.Command, err = b.command(dir); err != nil {
		return r, err
	}
	var errs []error
	fill := func(text string) string {
		return placeholder.ReplaceAllStringFunc(text, func(p string) string {
			value, ask, err := b.value(p)
			errs = append(errs, err)
			if ask != "" && !slices.Contains(r.Asks, ask) {
				r.Asks = append(r.Asks, ask)
			}
			return value
		})
	}
	for _, word := range b.Server.Config.Args {
		if strings.Contains(word, "..") {
			return r, fmt.Errorf("its argument %q leads out of the bundle", word)
		}
		r.Args = append(r.Args, fill(word))
	}
	for _, name := range slices.Sorted(maps.Keys(b.Server.Config.Env)) {
		r.Env[name] = fill(b.Server.Config.Env[name])
	}
	return r, errors.Join(errs...)
}

// value returns the replacement of a placeholder, and the variable that the user has to set, if any.
func (b *bundle) value(placeholder string) (value, ask string, err error) {
	name := strings.TrimSuffix(strings.TrimPrefix(placeholder, "${"), "}")
	key, users := strings.CutPrefix(name, "user_config.")
	switch {
	case name == "__dirname":
		return Root, "", nil
	case name == "/" || name == "pathSeparator":
		return "/", "", nil
	case name == "HOME":
		return "${HOME}", "", nil
	case !users:
		return "", "", fmt.Errorf("its placeholder %s is not known", placeholder)
	}
	variable := strings.ToUpper(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(key, "_"))
	of, ok := b.UserConfig[key]
	if text, one := plainDefault(of.Default); ok && one && !of.Required && !strings.ContainsAny(text, "${}") {
		return "${" + variable + ":-" + text + "}", "", nil
	}
	return "${" + variable + "}", variable, nil
}

// plainDefault returns a default value as one word; ok is false for a list.
func plainDefault(value any) (text string, ok bool) {
	switch v := value.(type) {
	case nil:
		return "", true
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}
