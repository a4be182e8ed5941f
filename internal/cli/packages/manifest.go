package packages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/supply/packages"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
)

// setting is a key of a plugin.toml that add and upgrade write.
type setting struct {
	table, key string
	value      string // in a form that is valid TOML and JSON
}

// users is the user's part of a plugin.toml that runs a package.
type users struct {
	args []string // appended to the package's own arguments
	asks []string // variables needed in addition to the package's
	bins []string // programs needed in addition to the runtime

	env map[string]string // variables with the user's values

	data []packages.Data // where the program shall keep its data
	cwd  string          // working directory; "": leave it as it is
}

// documented returns the variables that a package documents for its data directory, except those that are set already.
// states reports whether the user sets a variable.
func documented(p *packages.Package, states func(name string) bool) []packages.Data {
	return slices.DeleteFunc(slices.Clone(p.Run.Data), func(d packages.Data) bool {
		_, own := p.Run.Env[d.Name]
		return own || slices.Contains(p.Run.Asks, d.Name) || states(d.Name)
	})
}

// settings returns the keys of a plugin.toml for a package.
func settings(p *packages.Package, u users) (list []setting) {
	set := func(table, key, value string) { list = append(list, setting{table, key, value}) }
	set("plugin", "version", quote(manifest.SemanticVersion(p.Version)))
	if text := display.Cut(strings.Join(strings.Fields(p.Run.Description), " "), 500); text != "" {
		set("plugin", "description", quote(text))
	}
	set("transport", "command", quote(p.Run.Command))
	set("transport", "args", quoteAll(slices.Concat(p.Run.Args, u.args)))
	set("transport", "protocol", quote("mcp"))
	if u.cwd != "" {
		set("transport", "cwd", quote(u.cwd))
	}
	for _, d := range u.data {
		set("transport.env", d.Name, quote(packages.State+"/"+d.Path))
	}
	env := make(map[string]string)
	maps.Copy(env, p.Run.Env)
	maps.Copy(env, u.env)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		set("transport.env", name, quote(env[name]))
	}
	bins := slices.Clone(u.bins)
	if !strings.Contains(p.Run.Command, "/") && !slices.Contains(bins, p.Run.Command) {
		bins = append(bins, p.Run.Command)
	}
	if len(bins) > 0 {
		set("requires", "bins", quoteAll(bins))
	}
	if env := slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.Run.Asks, u.asks)))); len(env) > 0 {
		set("requires", "env", quoteAll(env))
	}
	if p.Run.License != "" {
		set("meta", "license", quote(display.Cut(p.Run.License, 100)))
	}
	if strings.HasPrefix(p.Run.Homepage, "https://") {
		set("meta", "homepage", quote(display.Cut(p.Run.Homepage, 300)))
	}
	return list
}

// line renders the key and its value. A variable name is quoted, because it need not be a bare key.
func (s setting) line() string {
	if s.table == "transport.env" {
		return quote(s.key) + " = " + s.value + "\n"
	}
	return s.key + " = " + s.value + "\n"
}

// manifestOf returns a plugin.toml with the [settings] of a package.
func manifestOf(p *packages.Package, id string, u users) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Written by exthost add %s; exthost upgrade %s changes the version. Its files are those of "+
		"exthost.lock.\n", display.Visible(p.Source.String()), id)
	fmt.Fprintf(&b, "[plugin]\nid = %s\n", quote(id))
	table := "plugin"
	for _, s := range settings(p, u) {
		if s.table != table {
			table = s.table
			fmt.Fprintf(&b, "\n[%s]\n", table)
		}
		b.WriteString(s.line())
	}
	return b.Bytes()
}

// upgraded replaces the [settings] of a package in a plugin.toml. It keeps everything else, such as a sandbox, because
// that belongs to the user.
func upgraded(text []byte, p *packages.Package, u users) ([]byte, error) {
	for _, s := range settings(p, u) {
		path := append(strings.Split(s.table, "."), s.key)
		at, stated := strict.LocateTOML(text, path...)
		header := regexp.MustCompile(`(?m)^[ \t]*\[` + regexp.QuoteMeta(s.table) +
			`\][ \t]*(#.*)?\r?\n`).FindIndex(text)
		_, other := strict.LocateTOML(text, path[:len(path)-1]...)
		switch {
		case stated:
			d := json.NewDecoder(bytes.NewReader(text[at.Start:]))
			if err := d.Decode(new(any)); err != nil {
				return nil, fmt.Errorf("%s in plugin.toml is not written as exthost add writes it: as %s",
					strings.Join(path, "."), s.value)
			}
			text = slices.Concat(text[:at.Start], []byte(s.value), text[at.Start+int(d.InputOffset()):])
		case header != nil:
			text = slices.Insert(text, header[1], []byte(s.line())...)
		case other:
			return nil, fmt.Errorf("plugin.toml has no line [%s] for %s", s.table, s.key)
		default:
			text = fmt.Appendf(text, "\n[%s]\n%s", s.table, s.line())
		}
		if _, stated = strict.LocateTOML(text, path...); !stated { // the header was found within a multi-line string
			return nil, fmt.Errorf("the line [%s] of plugin.toml is no table", s.table)
		}
	}
	return text, nil
}

// quote renders text of a package as a TOML string, without invisible characters.
func quote(value string) string { return text.Literal(display.Visible(value)) }

func quoteAll(list []string) string {
	visible := make([]string, len(list))
	for i, s := range list {
		visible[i] = display.Visible(s)
	}
	return text.LiteralList(visible)
}
