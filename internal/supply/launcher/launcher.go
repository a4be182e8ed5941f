// Package launcher parses command lines of npx, uvx and similar programs, which download a package and run it.
package launcher

import (
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text"
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

// Parse parses a command line; ok is false if it downloads no package. A shell that runs such a command line, as cmd /c
// and sh -c do, counts as the command line.
func Parse(argv []string) (Command, bool) {
	argv, err := unwrapped(argv)
	if err != nil {
		return Command{Unclear: "the line"}, true
	}
	if len(argv) < 2 {
		return Command{}, false
	}
	r, known := runners[program(argv[0])]
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

// program returns the name of a program, without its folder and without the suffixes of Windows.
func program(word string) string {
	name := strings.ToLower(word[strings.LastIndexAny(word, `/\`)+1:])
	return strings.TrimSuffix(strings.TrimSuffix(name, ".exe"), ".cmd")
}

// unwrapped returns the command line that a shell runs, or argv if its program is no shell. The error says that the
// shell does more than run one program, and that it downloads a package.
func unwrapped(argv []string) ([]string, error) {
	if len(argv) < 3 {
		return argv, nil
	}
	switch program(argv[0]) {
	case "cmd":
		n := slices.IndexFunc(argv, func(word string) bool { return strings.EqualFold(word, "/c") })
		switch {
		case n < 0:
		case n == len(argv)-2:
			return strings.Fields(argv[n+1]), nil
		default:
			return argv[n+1:], nil
		}
	case "sh", "bash", "dash", "zsh":
		if shellFlags.MatchString(argv[1]) {
			return unwrappedLine(argv)
		}
	}
	return argv, nil
}

// unwrappedLine is unwrapped for a shell with a line.
func unwrappedLine(argv []string) ([]string, error) {
	words, err := text.CommandWords(argv[2])
	if err == nil {
		return withoutExec(words), nil
	}
	words = strings.Fields(argv[2])
	for n, word := range words {
		r, known := runners[program(word)]
		if _, known = r.after(words[n+1:], known); known {
			return nil, err
		}
	}
	return argv, nil
}

// shellFlags matches the option of a shell that takes a line, with options that do not change what the line runs.
var shellFlags = regexp.MustCompile(`^-[leiu]*c$`)

func withoutExec(words []string) []string {
	if len(words) > 1 && words[0] == "exec" {
		return words[1:]
	}
	return words
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

// Untagged returns the image of a command line that runs a container, as written, if it states no version, so that
// another image may run after the next pull; else "".
func Untagged(argv []string) string {
	argv, err := unwrapped(argv)
	if err != nil || len(argv) < 3 || !slices.Contains([]string{"docker", "podman", "nerdctl"}, program(argv[0])) {
		return ""
	}
	args := argv[1:]
	if args[0] == "container" {
		args = args[1:]
	}
	if args[0] != "run" {
		return ""
	}
	image := imageOf(args[1:])
	name, _, byDigest := strings.Cut(image, "@")
	_, tag, tagged := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	if byDigest || tagged && tag != "latest" || strings.Contains(image, "$") {
		return ""
	}
	return image
}

// noValue matches the options of docker run that take no value.
var noValue = regexp.MustCompile(`^(-[itdPq]+|--(interactive|tty|detach|rm|init|privileged|read-only|publish-all|` +
	`no-healthcheck|oom-kill-disable|quiet|sig-proxy))$`)

// imageOf returns the first argument of docker run that belongs to no option.
func imageOf(args []string) string {
	for i := 0; i < len(args); i++ {
		switch word := args[i]; {
		case !strings.HasPrefix(word, "-"):
			return word
		case noValue.MatchString(word), strings.Contains(word, "="):
		case !strings.HasPrefix(word, "--") && len(word) > 2: // -v/host:/container
		default:
			i++
		}
	}
	return ""
}

func isPlace(pkg string) bool {
	return strings.ContainsAny(pkg, ":$") || strings.HasPrefix(pkg, ".") || strings.HasPrefix(pkg, "/")
}
