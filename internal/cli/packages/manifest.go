package packages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/display"
	"github.com/exthost/exthost/internal/packages"
)

// manifestOf is a plugin.toml that runs a package. args follow those of the package; asks are
// variables that it needs beside its own.
func manifestOf(p *packages.Package, id string, args, asks []string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Written by exthost add %s; exthost upgrade %s changes the version. Its files are those of exthost.lock.\n", display.Visible(p.Source.String()), id)
	fmt.Fprintf(&b, "[plugin]\nid = %s\nversion = %s\n", quote(id), quote(semantic(p.Version)))
	if text := display.Cut(strings.Join(strings.Fields(p.Run.Description), " "), 500); text != "" {
		fmt.Fprintf(&b, "description = %s\n", quote(text))
	}
	fmt.Fprintf(&b, "\n[transport]\ncommand = %s\nargs = %s\nprotocol = \"mcp\"\n", quote(p.Run.Command), quoteAll(slices.Concat(p.Run.Args, args)))
	if len(p.Run.Env) > 0 {
		b.WriteString("\n[transport.env]\n")
		for _, name := range slices.Sorted(maps.Keys(p.Run.Env)) {
			fmt.Fprintf(&b, "%s = %s\n", quote(name), quote(p.Run.Env[name]))
		}
	}
	b.WriteString("\n[requires]\n")
	if !strings.Contains(p.Run.Command, "/") {
		fmt.Fprintf(&b, "bins = %s\n", quoteAll([]string{p.Run.Command}))
	}
	if env := slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.Run.Asks, asks)))); len(env) > 0 {
		fmt.Fprintf(&b, "env = %s\n", quoteAll(env))
	}
	if p.Run.License != "" || strings.HasPrefix(p.Run.Homepage, "https://") {
		b.WriteString("\n[meta]\n")
		if p.Run.License != "" {
			fmt.Fprintf(&b, "license = %s\n", quote(display.Cut(p.Run.License, 100)))
		}
		if strings.HasPrefix(p.Run.Homepage, "https://") {
			fmt.Fprintf(&b, "homepage = %s\n", quote(display.Cut(p.Run.Homepage, 300)))
		}
	}
	return b.Bytes()
}

// quote writes a string of TOML, which a string of JSON is.
func quote(s string) string {
	data, err := json.Marshal(display.Visible(s))
	if err != nil { // of a string
		return `""`
	}
	return string(data)
}

func quoteAll(list []string) string {
	words := make([]string, len(list))
	for i, s := range list {
		words[i] = quote(s)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

var (
	semver  = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
	numbers = regexp.MustCompile(`[0-9]+`)
)

// semantic is a version of any form as a manifest has it: of others, the first three numbers.
func semantic(version string) string {
	if semver.MatchString(version) {
		return version
	}
	parts := []string{"0", "0", "0"}
	if strings.IndexFunc(version, func(r rune) bool { return r >= 'a' && r <= 'f' }) < 0 || strings.Contains(version, ".") {
		for i, word := range numbers.FindAllString(version, 3) {
			if n, err := strconv.Atoi(word); err == nil {
				parts[i] = strconv.Itoa(n)
			}
		}
	}
	return strings.Join(parts, ".")
}
