package unpacked

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/regular"
)

// BundleFile says how the MCP bundle that it lies in is run.
const BundleFile = "manifest.json"

// bundle is what counts of that file.
type bundle struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description"`
	License     string `json:"license"`
	Homepage    string `json:"homepage"`
	Server      struct {
		Type   string `json:"type"`
		Config struct {
			Command string            `json:"command"`
			Args    []string          `json:"args"`
			Env     map[string]string `json:"env"`
		} `json:"mcp_config"`
	} `json:"server"`
	UserConfig map[string]struct {
		Required bool `json:"required"`
		Default  any  `json:"default"`
	} `json:"user_config"`
}

var placeholder = regexp.MustCompile(`\$\{[^}]*\}?`)

// describeBundle says how a bundle is run. What its user states becomes variables.
func describeBundle(dir string) (Run, error) {
	data, _, err := regular.Read(filepath.Join(dir, BundleFile), MaxPackageJSON, false)
	if err != nil {
		return Run{}, err
	}
	var b bundle
	if err := json.Unmarshal(data, &b); err != nil {
		return Run{}, fmt.Errorf("%s: %w", BundleFile, err)
	}
	r := Run{Env: map[string]string{}, Description: b.Description, License: b.License, Homepage: b.Homepage, Version: b.Version}
	switch c := b.Server.Config.Command; {
	case b.Server.Type == "node" && c == "node":
		r.Command = "node"
	case b.Server.Type == "python" && (c == "python" || c == "python3"):
		r.Command = "python3"
	default:
		return r, fmt.Errorf("its server of type %q runs %q; node and python are run", b.Server.Type, c)
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

// value is what a placeholder of a bundle is here, and the variable that the user has to set.
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
	if text, _ := of.Default.(string); ok && !of.Required && !strings.ContainsAny(text, "${}") {
		return "${" + variable + ":-" + text + "}", "", nil
	}
	return "${" + variable + "}", variable, nil
}
