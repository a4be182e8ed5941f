package consent

import (
	"cmp"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/file"
)

// language describes a family of programs and the files that they load implicitly.
type language struct {
	endings string // file extensions, lower case
	names   string // other file names, some with their directory

	interpreters string // programs that run a file, a folder, or what they find in the working directory
	tools        string // programs that read the working directory; docker:compose is docker with the argument compose
	compiles     bool   // the tools read all files of the language below the working directory, and write new files
}

var python = language{
	endings: ".py .pyw .pyc .pyd .pyx .pxd .pth ._pth .pyz .egg .egg-link .whl .zip",
	names: "requirements.txt constraints.txt uv.lock poetry.lock Pipfile Pipfile.lock pip.conf pyvenv.cfg " +
		"setup.cfg tox.ini pytest.ini mypy.ini .flake8 .python-version environment.yml entry_points.txt",
	interpreters: "python pythonw pypy",
	tools: "uv:run poetry pdm hatch pipenv tox nox pytest invoke uvicorn gunicorn hypercorn flask fastapi " +
		"fastmcp streamlit",
}

var node = language{
	endings: ".js .mjs .cjs .jsx .ts .mts .cts .tsx .node .wasm .coffee .vue .svelte",
	names: "package.json package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml pnpm-workspace.yaml " +
		".pnp.data.json bun.lock bun.lockb deno.json deno.jsonc deno.lock import_map.json tsconfig.json " +
		"jsconfig.json " +
		"babel.config.json nodemon.json turbo.json nx.json lerna.json .node-version",
	interpreters: "node nodejs bun deno tsx ts-node coffee",
	tools:        "npm pnpm yarn bun:run bun:x deno:task npx pnpx bunx yarnpkg corepack",
}

var shell = language{
	endings: ".sh .bash .zsh .zwc .fish .ksh .csh .nu .bats .awk .sed .jq .tcl",
	names:   ".profile .bash_profile .bash_login .bash_aliases .zshenv .zprofile .zlogin",
}

// native is code that programs in every language load.
var native = language{
	endings: ".so .dylib .dll .exe .c .h .cc .cpp .cxx .hh .hpp .m .mm .s .syso",
}

var languages = []*language{&python, &node, &shell, &native,
	{endings: ".go .mod .sum .work", names: "modules.txt", tools: "go", compiles: true},
	{
		endings:  ".rs",
		names:    "Cargo.toml Cargo.lock rust-toolchain rust-toolchain.toml .cargo/config .cargo/config.toml",
		tools:    "cargo",
		compiles: true,
	},
	{
		endings:      ".rb .rake .ru .gemspec",
		names:        "Gemfile Gemfile.lock Rakefile .rspec .ruby-version .bundle/config",
		interpreters: "ruby jruby",
		tools:        "rake bundle rackup rails",
	},
	{endings: ".pl .pm .pmc .ph .al", names: "cpanfile", interpreters: "perl"},
	{
		endings:      ".php .phtml .inc .phar",
		names:        "composer.json composer.lock php.ini .user.ini",
		interpreters: "php",
		tools:        "composer",
	},
	{endings: ".lua .luac", interpreters: "lua luajit"},
	{endings: ".ps1 .psm1 .psd1 .bat .cmd .vbs .wsf", interpreters: "pwsh powershell"},
	{endings: ".jar .war .class .java .kt .kts .scala .sbt .groovy .gradle .clj .cljs",
		names: "pom.xml build.xml gradle.properties gradle-wrapper.properties deps.edn .mvn/jvm.config " +
			".mvn/maven.config .mvn/extensions.xml",
		interpreters: "java", tools: "mvn mvnw gradle gradlew sbt ant lein"},
	{
		endings: ".cs .csx .fs .fsx .vb .csproj .fsproj .vbproj .sln .slnx .props .targets",
		names:   "nuget.config NuGet.Config global.json",
		tools:   "dotnet msbuild",
	},
	{endings: ".r", names: ".Rprofile .Renviron", tools: "R Rscript"},
	{endings: ".ex .exs .erl .hrl .beam", names: "mix.lock", interpreters: "elixir", tools: "mix rebar"},
	{endings: ".hs .lhs .cabal", names: ".ghci stack.yaml", tools: "ghci runghc stack cabal"},
	{
		endings:      ".jl .ml .mli .zig .swift .nim .nimble .dart .cr .el .elc .lisp .scm .rkt",
		names:        "pubspec.yaml pubspec.lock",
		interpreters: "julia",
		tools:        "ocaml dune zig swift nimble dart crystal",
	},
	{endings: ".toml .mk .ninja .cmake .bzl .bazel .nix",
		names: "Makefile makefile GNUmakefile justfile Justfile .justfile Taskfile.yml Taskfile.yaml Dockerfile " +
			"Containerfile Procfile Vagrantfile Jenkinsfile CMakeLists.txt CMakePresets.json SConstruct meson.build " +
			"BUILD WORKSPACE flake.lock .envrc .env .mcp.json .tool-versions " +
			"compose.yaml compose.yml compose.override.yaml compose.override.yml docker-compose.yaml " +
			"docker-compose.yml docker-compose.override.yaml docker-compose.override.yml .pre-commit-config.yaml " +
			"lefthook.yml lefthook.yaml .git .git/config .git/config.worktree .gitmodules info/attributes " +
			"info/sparse-checkout",
		tools: "make gmake ninja just task cmake ctest scons meson bazel bazelisk nix nix-shell nix-build mise " +
			"direnv pre-commit lefthook docker-compose docker:compose docker:build docker:buildx podman-compose " +
			"podman:compose podman:build vagrant"},
}

// Languages by their files and programs.
var (
	byEnding      = map[string]*language{}
	byName        = map[string]*language{}
	byInterpreter = map[string]*language{}
	byTool        = map[string]*language{}
)

func init() {
	for _, l := range languages {
		for _, index := range []struct {
			of   map[string]*language
			list string
		}{{byEnding, l.endings}, {byName, l.names}, {byInterpreter, l.interpreters}, {byTool, l.tools}} {
			for word := range strings.FieldsSeq(index.list) {
				index.of[strings.ToLower(word)] = l
			}
		}
	}
}

// settings matches files such as .bashrc and .mocharc.yml.
var settings = regexp.MustCompile(`^\.[a-z0-9_-]+rc(\.(json|jsonc|json5|ya?ml))?$`)

// variant reports whether a file name matches a pattern of code files, such as tsconfig.*.json.
func variant(name string) bool {
	is := func(start, end string) bool { return strings.HasPrefix(name, start) && strings.HasSuffix(name, end) }
	return is("tsconfig.", ".json") || is("jsconfig.", ".json") || is("", ".deps.json") ||
		is("", ".runtimeconfig.json") || is("requirements", ".txt") ||
		is(".env.", "") || strings.Contains(name, ".so.") || is(".", "") && settings.MatchString(name)
}

// isTypes reports whether a file is a type declaration, which never runs.
func isTypes(name string) bool {
	return strings.HasSuffix(name, ".d.ts") || strings.HasSuffix(name, ".d.mts") || strings.HasSuffix(name, ".d.cts")
}

// languageOf returns the language of a file by its name, or nil. It ignores case, like the file systems of macOS
// and Windows.
func languageOf(path string) *language {
	name := strings.ToLower(filepath.Base(path))
	if isTypes(name) {
		return nil
	}
	return cmp.Or(byName[name], byName[strings.ToLower(filepath.Base(filepath.Dir(path)))+"/"+name],
		byEnding[filepath.Ext(name)])
}

// IsCode reports whether a file may affect what runs, by its name or because it is executable.
func IsCode(path string, mode fs.FileMode) bool {
	return languageOf(path) != nil || mode&0o111 != 0 || variant(strings.ToLower(filepath.Base(path)))
}

// loads reports whether programs in language l load the file. A nil l stands for all languages.
func (l *language) loads(path string, mode fs.FileMode) bool {
	switch of := languageOf(path); {
	case l == nil:
		return IsCode(path, mode)
	case of == l, of == &native:
		return true
	}
	return l == &shell && mode&0o111 != 0
}

// script returns the language of a script, by its extension or #! line; nil if it is not a script.
func script(path string) *language {
	switch of := languageOf(path); {
	case of == &native:
		return nil
	case of != nil:
		return of
	}
	f, _, err := file.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 256))
	line, _, _ := strings.Cut(string(head), "\n")
	if err != nil || !strings.HasPrefix(line, "#!") {
		return nil
	}
	for _, word := range slices.Backward(strings.Fields(line[2:])) {
		if l := byInterpreter[program(word)]; l != nil {
			return l
		}
	}
	return &shell
}

// program returns a program's name in lower case, without folder, version and .exe.
func program(word string) string {
	name := strings.ToLower(word[strings.LastIndexAny(word, `/\`)+1:])
	for _, ending := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, ending)
	}
	if short := strings.TrimRight(name, "0123456789."); short != "" { // python3.12
		return short
	}
	return name
}
