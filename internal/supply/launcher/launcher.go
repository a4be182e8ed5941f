// Package launcher parses command lines of npx, uvx and similar programs, which download a package and run it.
package launcher

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Command is the package and program that a command line runs.
type Command struct {
	// Source is the package in the syntax of exthost add, such as npm:NAME@RANGE; "" if exthost add does not
	// support it.
	Source string
	// Unpinned is the package as written, if it states no version and later releases may run; otherwise "". It is
	// also "" for files, URLs and variables.
	Unpinned string
	// Program is the program within the package; "" for the default one.
	Program string
	Args    []string // arguments of the program
	// Unclear is an option whose effect is unknown; "" if there is none.
	Unclear string
}

// runner describes the command line of a program that downloads and runs packages.
type runner struct {
	words  []string // subcommands that must follow, any of these; nil if none
	python bool
	names  []string // options that name the package; after one, the first argument is the package's program
	values []string // other options with a value
	quiet  []string // options without effect on what runs
	dashes bool     // arguments of the package's program must follow --
}

var (
	ofNPM = runner{
		names:  []string{"-p", "--package"},
		values: []string{"-c", "--call", "-w", "--workspace", "--registry", "--prefix", "--cache"},
		quiet:  []string{"-y", "--yes", "-q", "--quiet", "--prefer-offline", "--prefer-online"},
	}
	ofUV = runner{
		python: true,
		names:  []string{"--from"},
		values: []string{"--with", "--with-requirements", "--with-editable", "--python", "-p", "--index", "--index-url",
			"-i", "--extra-index-url", "--directory"},
		quiet: []string{"-q", "--quiet", "--refresh", "--no-cache", "--isolated", "--no-progress", "--offline"},
	}

	runners = map[string]runner{
		"npx": ofNPM, "bunx": ofNPM, "uvx": ofUV,
		"npm": {
			words:  []string{"exec", "x"},
			names:  ofNPM.names,
			values: ofNPM.values,
			quiet:  ofNPM.quiet,
			dashes: true,
		},
		"pnpm": {words: []string{"dlx"}, names: []string{"--package"}, quiet: []string{"-s", "--silent"}},
		"yarn": {words: []string{"dlx"}, names: ofNPM.names, quiet: []string{"-q", "--quiet"}},
		"uv":   {words: []string{"tool run"}, python: true, names: ofUV.names, values: ofUV.values, quiet: ofUV.quiet},
		"pipx": {
			words:  []string{"run"},
			python: true,
			names:  []string{"--spec"},
			values: []string{"--python", "--index-url", "-i", "--pip-args"},
			quiet:  []string{"--no-cache", "--quiet", "-q"},
		},
	}
)

// Parse parses a command line; ok is false if it downloads no package.
func Parse(argv []string) (Command, bool) {
	if len(argv) < 2 {
		return Command{}, false
	}
	r, known := runners[strings.TrimSuffix(path.Base(filepath.ToSlash(argv[0])), ".cmd")]
	args, known := r.after(argv[1:], known)
	if !known {
		return Command{}, false
	}
	c, pkg := r.parse(args)
	if pkg == "" {
		return c, false
	}
	c.Unpinned, c.Source = unpinned(pkg), r.source(pkg)
	return c, true
}

// after returns the arguments after the subcommand.
func (r *runner) after(args []string, known bool) ([]string, bool) {
	if r.words == nil {
		return args, known
	}
	for _, line := range r.words {
		words := strings.Fields(line)
		if len(args) > len(words) && slices.Equal(args[:len(words)], words) {
			return args[len(words):], known
		}
	}
	return nil, false
}

// parse returns the package as written; "" if args name none.
func (r *runner) parse(args []string) (c Command, pkg string) {
	for i := 0; i < len(args); i++ {
		option, value, stated := strings.Cut(args[i], "=")
		named := slices.Contains(r.names, option)
		switch {
		case args[i] == "--" || slices.Contains(r.quiet, option):
		case !strings.HasPrefix(args[i], "-"):
			return r.program(c, pkg, args[i:], i > 0 && args[i-1] == "--")
		case named || slices.Contains(r.values, option):
			if !stated && i+1 < len(args) {
				i++
				value = args[i]
			}
			if named && pkg == "" {
				pkg = value
			} else {
				c.Unclear = option
			}
		default:
			c.Unclear = option
		}
	}
	return c, pkg
}

// program parses the words from the first one that is not an option of the runner.
func (r *runner) program(c Command, pkg string, words []string, dashed bool) (Command, string) {
	if pkg == "" {
		pkg = words[0]
	} else {
		c.Program = words[0]
	}
	if c.Args = words[1:]; r.dashes && !dashed {
		if len(c.Args) > 0 && c.Args[0] == "--" {
			c.Args = c.Args[1:]
		} else if n := slices.IndexFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "-") }); n >= 0 {
			c.Unclear = c.Args[n]
		}
	}
	return c, pkg
}

// source returns the package in the syntax of exthost add; "" for files, URLs and variables.
func (r *runner) source(pkg string) string {
	if isPlace(pkg) {
		return ""
	}
	at := strings.LastIndexByte(pkg, '@')
	name, version := pkg, ""
	if at > 0 {
		name, version = pkg[:at], pkg[at+1:]
	}
	if version == "latest" {
		version = ""
	}
	if !r.python {
		if version != "" {
			version = "@" + version
		}
		return "npm:" + name + version
	}
	if version != "" {
		version = "==" + version
	}
	return "pypi:" + name + version
}

// unpinned returns pkg if it states no fixed version, else "".
func unpinned(pkg string) string {
	if isPlace(pkg) {
		return ""
	}
	name, version, stated := strings.Cut(strings.TrimPrefix(pkg, "@"), "@")
	if stated && version != "" && version != "latest" && version != "next" || strings.Contains(name, "==") {
		return ""
	}
	return pkg
}

func isPlace(pkg string) bool {
	return strings.ContainsAny(pkg, ":$") || strings.HasPrefix(pkg, ".") || strings.HasPrefix(pkg, "/")
}
