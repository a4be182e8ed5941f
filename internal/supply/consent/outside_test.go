package consent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/supply/consent"
)

// manifestOf returns the kit's manifest with one line in its transport.
func manifestOf(transport string) string {
	return "[plugin]\nid = \"kit\"\nversion = \"0.1.0\"\n[capabilities]\ntools = [\"go\"]\n[transport]\n" + transport +
		"\n"
}

// newProject returns a kit in a project with these empty files.
func newProject(t *testing.T, transport string, files ...string) *kit {
	k := newKit(t)
	k.Project = filepath.Dir(filepath.Dir(k.dir))
	k.write("plugin.toml", manifestOf(transport))
	for _, name := range files {
		k.write("../../"+name, "")
	}
	return k
}

// TestOutside changes one file at a time outside of a trusted extension's folder.
func TestOutside(t *testing.T) {
	for _, tt := range []struct {
		name, transport, change, want string
		files                         []string
	}{
		{"beside a script elsewhere", `cmd = ["node", "../../shared/server.js"]`, "shared/lib.js", "shared/lib.js",
			[]string{"shared/server.js", "shared/lib.js"}},
		{"new beside it", `cmd = ["node", "../../shared/server.js"]`, "shared/deep/lib.js", "shared/deep/lib.js (new)",
			[]string{"shared/server.js"}},
		{"data beside it", `cmd = ["node", "../../shared/server.js"]`, "shared/list.json", "",
			[]string{"shared/server.js"}},
		{"beside a script above", `cmd = ["node", "../server.js"]`, "extensions/lib.mjs", "lib.mjs (new)",
			[]string{"extensions/server.js"}},
		{"of another language", `cmd = ["node", "../server.js"]`, "extensions/lib.py", "",
			[]string{"extensions/server.js"}},
		{"another extension", `cmd = ["node", "../server.js"]`, "extensions/other/main.js", "",
			[]string{"extensions/server.js"}},
		{"a module of a script in the project", `cmd = ["python3", "../../serve.py"]`, "rules.py",
			"../../rules.py (new)", []string{"serve.py"}},
		{"by the first line", `cmd = ["../../bin/serve"]`, "bin/lib.py", "bin/lib.py (new)", []string{"bin/serve"}},
		{"a hook", "cmd = [\"true\"]\n[[hooks]]\nevent = \"after_tool_call\"\ncommand = [\"sh\", \"../../hooks/x.sh\"]",
			"hooks/lib.sh", "hooks/lib.sh (new)", []string{"hooks/x.sh"}},
		{"a package above", `cmd = ["node", "main.js"]`, "node_modules/left/index.js", "node_modules/left/index.js",
			[]string{"extensions/kit/main.js", "node_modules/left/index.js"}},
		{"a new package above", `cmd = ["node", "main.js"]`, "node_modules/left/index.js", "index.js (new)",
			[]string{"extensions/kit/main.js", "node_modules/right/index.js"}},
		{"types above", `cmd = ["node", "main.js"]`, "node_modules/left/index.d.ts", "",
			[]string{"extensions/kit/main.js", "node_modules/right/index.js"}},
		{"a package beside", `cmd = ["node", "main.js"]`, "extensions/node_modules/left/index.js", "index.js (new)",
			[]string{"extensions/kit/main.js"}},
		{"a package above the project", `cmd = ["node", "main.js"]`, "../node_modules/left/index.js", "",
			[]string{"extensions/kit/main.js"}},
		{"what says how Node loads", `cmd = ["node", "main.js"]`, "package.json", "package.json (new)",
			[]string{"extensions/kit/main.js"}},
		{"where that is nearer", `cmd = ["node", "main.js"]`, "package.json", "",
			[]string{"extensions/kit/main.js", "extensions/kit/package.json"}},
		{"packages of no concern", `cmd = ["python3", "main.py"]`, "node_modules/left/index.js", "", nil},
		{"an environment of Python", `cmd = ["../../.venv/bin/python", "main.py"]`, ".venv/lib/site-packages/x.py",
			"x.py (new)", []string{".venv/bin/python", ".venv/pyvenv.cfg"}},
		{"a tool of another folder", "cmd = [\"make\", \"serve\"]\ncwd = \"../../serve\"", "serve/Makefile",
			"serve/Makefile (new)", []string{"serve/x"}},
		{"a script in a folder that a tool is told", `cmd = ["uv", "--directory", "../..", "run", "src/serve.py"]`,
			"src/rules.py", "../../src/rules.py (new)", []string{"src/serve.py"}},
		{"a module in a folder that a tool is told",
			`cmd = ["uv", "run", "--project=../..", "--directory=../..", "-m", "app.serve"]`, "app/rules.py",
			"../../app/rules.py (new)", []string{"app/serve.py"}},
		{"a folder of programs", "cmd = [\"true\"]\nenv = {PATH = \"../../tools\"}", "tools/x.sh", "tools/x.sh (new)",
			[]string{"tools/y"}},
		{"a file that a variable names", "cmd = [\"true\"]\nenv = {R_PROFILE_USER = \"../../start.R\"}", "start.R",
			"start.R", []string{"start.R"}},
		{"data that a variable names", "cmd = [\"true\"]\nenv = {ROOT = \"../../src\"}", "src/x.js", "",
			[]string{"src/y.js"}},
		{"outside of the project", `cmd = ["node", "../../../elsewhere/server.js"]`, "../elsewhere/lib.js", "",
			[]string{"../elsewhere/server.js"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newProject(t, tt.transport, tt.files...)
			if strings.Contains(tt.name, "first line") {
				k.write("../../bin/serve", "#!/usr/bin/env python3\n")
			}
			k.accept()
			k.says("")
			k.write("../../"+tt.change, "changed")
			k.says(tt.want)
			k.accept()
			k.says("")
		})
	}
}

// TestOutsideFromElsewhere: an extension that was trusted within its project also runs where its own folder is the
// working directory. An extension that was trusted there needs trust again within its project.
func TestOutsideFromElsewhere(t *testing.T) {
	k := newProject(t, `cmd = ["node", "main.js"]`, "extensions/kit/main.js", "node_modules/left/index.js")
	project := k.Project
	k.accept()
	k.Project = k.dir
	k.says("")
	k.accept() // again, unchanged
	k.Project = project
	k.says("")
	k.write("../../node_modules/left/index.js", "changed")
	k.says("node_modules/left/index.js")
	k.Project = k.dir
	k.says("node_modules/left/index.js")
	k.accept()
	k.says("")
	k.Project = project
	k.says("node_modules/left/index.js (new)")
}

// TestConfiguredOutside changes one file at a time in a project with a trusted configuration.
func TestConfiguredOutside(t *testing.T) {
	for _, tt := range []struct {
		cwd, line, change, want string
		files                   string
	}{
		{"", "python3 check.py", "rules.py", "rules.py (new)", "check.py"},
		{"", "python3 check.py", "main.go", "", "check.py"},
		{"", "python3 check.py", "app/rules.py", "", "check.py"},
		{"", "python3 check.py", "notes.txt", "", "check.py"},
		{"", "node check.mjs", "package.json", "package.json (new)", "check.mjs"},
		{"", "node check.mjs", "node_modules/x/index.js", "node_modules/x/index.js (new)", "check.mjs"},
		{"", "node guards/check.mjs", "node_modules/x/index.js", "node_modules/x/index.js (new)", "guards/check.mjs"},
		{"", "node --require ./a/hook.js ./b/main.js", "b/lib.js", "b/lib.js (new)", "a/hook.js b/main.js"},
		{"", "node -e require('./x')", "x.js", "x.js (new)", ""},
		{"", "node tool", "tool/index.js", "tool/index.js (new)", "tool/package.json"},
		{"", "node node_modules/server/index.js ./src", "src/x.js", "", "node_modules/server/index.js src/main.js"},
		{"", "python3 guards", "guards/lib.py", "guards/lib.py (new)", "guards/__main__.py"},
		{"", "python3 -m guards", "guards/lib.py", "guards/lib.py (new)", "guards/__main__.py"},
		{"", "python3 -m guards.check", "guards/__init__.py", "guards/__init__.py (new)", "guards/check.py"},
		{"", "python3 -mguards", "guards/lib.py", "guards/lib.py (new)", "guards/__main__.py"},
		{"", "python3.12 -m guards", "random.py", "random.py (new)", "guards/__main__.py"},
		{"", "go run ./policy", "policy/x.go", "policy/x.go (new)", "policy/main.go go.mod"},
		{"", "go run ./policy", "go.mod", "go.mod (new)", "policy/main.go"},
		{"", "go run ./policy", "other/x.go", "", "policy/main.go"},
		{"policy", "go run .", "go.work", "go.work (new)", "policy/main.go"},
		{"policy", "go run .", "rules/x.go", "", "policy/main.go"},
		{"guard", "cargo run", ".cargo/config.toml", ".cargo/config.toml (new)", "guard/Cargo.toml .cargo/x"},
		{"", "deno run guards/check.ts", "deno.json", "deno.json (new)", "guards/check.ts"},
		{"", "guards/check", "guards/lib.py", "", "guards/check"},
		{"", "DIR/guards/check.py", "guards/check.py", "guards/check.py", "guards/check.py"},
		{"", "DIR/guards/check.py", "guards/lib.py", "guards/lib.py (new)", "guards/check.py"},
		{"", "java -cp lib/a.jar:lib/b.jar Main", "lib/b.jar", "lib/b.jar", "lib/a.jar lib/b.jar"},
		{"", "go run .", "rules/x.go", "rules/x.go (new)", "main.go"},
		{"", "cargo run", "src/lib.rs", "src/lib.rs (new)", "Cargo.toml"},
		{"", "cargo run", "Cargo.toml", "Cargo.toml", "Cargo.toml"},
		{"", "cargo run", "target/debug/build/out.rs", "", "Cargo.toml"},
		{"guard", "cargo run", "guard/src/lib.rs", "guard/src/lib.rs (new)", "guard/Cargo.toml"},
		{"guard", "cargo run", "guard/target/out.rs", "", "guard/Cargo.toml"},
		{"", "make check", "Makefile", "Makefile", "Makefile"},
		{"", "make check", "Makefile", "Makefile (new)", ""},
		{"", "make check", "rules.mk", "rules.mk (new)", "Makefile"},
		{"", "make -C guards check", "guards/Makefile", "guards/Makefile (new)", "guards/x"},
		{"guards", "make check", "guards/deep/x.sh", "guards/deep/x.sh (new)", "guards/Makefile"},
		{"", "sh -c cd guards && make", "Makefile", "Makefile (new)", ""},
		{"", "env A=1 make", "Makefile", "Makefile (new)", ""},
		{"", "just check", "justfile", "justfile (new)", ""},
		{"", "rake check", "Rakefile", "Rakefile (new)", ""},
		{"", "npm run check", "package.json", "package.json (new)", ""},
		{"", "npm run check", "scripts/lib.sh", "scripts/lib.sh (new)", "package.json scripts/check.sh"},
		{"", "pnpm check", "node_modules/.bin/eslint.js", "eslint.js (new)", "package.json"},
		{"", "node ${MISSING}/x.js src", "src/x.js", "", "src/main.js"},
		{"", "node -r ${MISSING}/x.js src", "src/x.js", "", "src/main.js"},
		{"", "npx checker ./src", "src/x.js", "", "src/main.js"},
		{"", "deno task check", "deno.json", "deno.json (new)", ""},
		{"", "docker compose run check", "compose.yaml", "compose.yaml (new)", ""},
		{"", "docker run check", "compose.yaml", "", ""},
		{"", "true make", "Makefile", "", ""},
		{"", "node guards/check", "guards/check.js", "guards/check.js", "guards/check.js guards/x.js"},
		{"", "node guards/check", "guards/lib.js", "guards/lib.js (new)", "guards/check.js"},
		{"", "node -r ./guards/hook main.js", "guards/hook.js", "guards/hook.js", "guards/hook.js main.js"},
		{"", "node --require=./guards/hook main.js", "guards/hook.js", "guards/hook.js", "guards/hook.js main.js"},
		{"", "python3 -um guards.check", "guards/check.py", "guards/check.py", "guards/check.py"},
		{"", "python3 -um check", "check.py", "check.py", "check.py"},
		{"", "uv run python -m guards.check", "guards/check.py", "guards/check.py", "guards/check.py pyproject.toml"},
		{"", "uv run -m guards.check", "guards/check.py", "guards/check.py", "guards/check.py pyproject.toml"},
		{"", "uv --directory guards run src/check.py", "guards/src/check.py", "guards/src/check.py",
			"guards/src/check.py guards/pyproject.toml"},
		{"", "uv run --directory guards src/check.py", "guards/src/check.py", "guards/src/check.py",
			"guards/src/check.py guards/pyproject.toml"},
		{"", "poetry run python -m guards.check", "guards/check.py", "guards/check.py",
			"guards/check.py pyproject.toml"},
		{"", "setsid python3 -m guards.check", "guards/check.py", "guards/check.py", "guards/check.py"},
		{"", "xargs make", "Makefile", "Makefile", "Makefile"},
		{"", "ruby -Iguards -rcheck x.rb", "guards/check.rb", "guards/check.rb", "guards/check.rb x.rb"},
		{"", "ruby -r./guards/check x.rb", "guards/check.rb", "guards/check.rb", "guards/check.rb x.rb"},
		{"", "perl -Iguards x.pl", "guards/check.pm", "guards/check.pm", "guards/check.pm x.pl"},
		{"", "perl -I guards x.pl", "guards/check.pm", "guards/check.pm", "guards/check.pm x.pl"},
		{"", "php -S localhost:1 -t guards", "guards/check.php", "guards/check.php", "guards/check.php"},
		{"", "bun guards/check", "guards/check.ts", "guards/check.ts", "guards/check.ts"},
		{"", "tsx guards/check", "guards/check.ts", "guards/check.ts", "guards/check.ts"},
		{"", "sh -c cd guards && python3 check.py", "guards/check.py", "guards/check.py", "guards/check.py"},
		{"", "java -jar lib/a.jar", "lib/a.jar", "lib/a.jar", "lib/a.jar"},
		{"", "java -cp lib/* Main", "lib/b.jar", "lib/b.jar", "lib/b.jar"},
		{"", "java @guards/args", "guards/args", "guards/args", "guards/args"},
		{"", "java -javaagent:guards/a.jar Main", "guards/a.jar", "guards/a.jar", "guards/a.jar"},
		{"", "deno run --config guards/deno.json check.ts", "guards/deno.json", "guards/deno.json",
			"guards/deno.json check.ts"},
		{"", "make -Cguards check", "guards/Makefile", "guards/Makefile", "guards/Makefile"},
		{"", "make -fguards/rules check", "guards/rules", "guards/rules", "guards/rules"},
		{"", "npm --prefix guards run check", "guards/package.json", "guards/package.json", "guards/package.json"},
		{"", "npm run check --workspace guards", "guards/package.json", "guards/package.json",
			"guards/package.json package.json"},
		{"", "yarn --cwd guards check", "guards/package.json", "guards/package.json", "guards/package.json"},
		{"", "go -C guards run .", "guards/x.go", "guards/x.go", "guards/x.go"},
		{"", "go run -C guards ./cmd", "guards/cmd/x.go", "guards/cmd/x.go", "guards/cmd/x.go"},
		{"", "cargo run --manifest-path guards/Cargo.toml", "guards/src/main.rs", "guards/src/main.rs",
			"guards/src/main.rs guards/Cargo.toml"},
		{"", "cargo run -p server", "lib/src/main.rs", "lib/src/main.rs", "lib/src/main.rs server/src/main.rs"},
		{"", "uvx --from . check", "check/x.py", "check/x.py", "check/x.py pyproject.toml"},
		{"", "uvx --from ./guards check", "guards/x.py", "guards/x.py", "guards/x.py pyproject.toml"},
		{"", "npx ./guards", "guards/x.js", "guards/x.js", "guards/x.js guards/package.json"},
		{"", "npx -y ./guards", "guards/x.js", "guards/x.js", "guards/x.js guards/package.json"},
		{"", "python3 -m uvicorn guards.app:app", "guards/app.py", "guards/app.py", "guards/app.py"},
		{"", "uvicorn app:app", "app.py", "app.py", "app.py"},
		{"", "fastmcp run guards/app.py", "guards/lib.py", "guards/lib.py (new)", "guards/app.py"},
		{"", "fastmcp run guards/app.py:app", "guards/app.py", "guards/app.py", "guards/app.py"},
		{"", "mcp run guards/app.py:app", "guards/app.py", "guards/app.py", "guards/app.py"},
		{"", "docker compose -f guards/c.yml up", "guards/c.yml", "guards/c.yml", "guards/c.yml"},
		{"", "nodemon guards/check.js", "guards/lib.js", "guards/lib.js (new)", "guards/check.js"},
		{"", "nodemon --exec python3 -m guards.check", "guards/check.py", "guards/check.py", "guards/check.py"},
		{"", "tsx watch guards/check.ts", "guards/lib.ts", "guards/lib.ts (new)", "guards/check.ts"},
		{"", "dotenv -- python3 -m guards.check", "guards/check.py", "guards/check.py", "guards/check.py"},
	} {
		t.Run(tt.line+" "+tt.change, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				t.Helper()
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if name == "package.json" && text == "" {
					text = `{"scripts": {"check": "scripts/check.sh --all"}}`
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for name := range strings.FieldsSeq(tt.files) {
				write(name, "")
			}
			argv := strings.Fields(strings.ReplaceAll(strings.ReplaceAll(tt.line, "DIR", filepath.ToSlash(dir)), ":lib",
				string(filepath.ListSeparator)+"lib"))
			if argv[0] == "sh" {
				argv = []string{"sh", "-c", strings.Join(argv[2:], " ")}
			}
			cfg := &config.Config{
				Plugins: []governance.Spec{{Cmd: argv, Cwd: tt.cwd}},
				Project: config.Project{Dir: dir, Files: map[string]string{filepath.Join(dir, "exthost.yaml"): "1"}},
			}
			k := &consent.Consent{Store: consent.NewStore(filepath.Join(t.TempDir(), "trust"))}
			v, err := k.Configuration(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := k.Store.TrustConfiguration(v, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := k.StartsConfigured(cfg); err != nil {
				t.Error("as it was trusted: ", err)
			}
			write(tt.change, "changed")
			if _, err := k.StartsConfigured(cfg); (err != nil) != (tt.want != "") ||
				err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("says %v, want %q", err, tt.want)
			}
		})
	}
}

// TestData writes files that extensions write into their folders.
func TestData(t *testing.T) {
	k := newProject(t, `cmd = ["node", "../../shared/server.js", "../../data"]`, "shared/server.js", "data/x.json")
	k.accept()
	for _, in := range []string{
		"",
		"data/",
		"../../",
		"../../shared/",
		"../../data/",
		"../../extensions/",
		"node_modules/.cache/",
		"../../node_modules/.cache/",
	} {
		for _, name := range []string{"a.json", "a.jsonl", "a.txt", "a.csv", "a.tsv", "a.sqlite", "a.sqlite-wal",
			"a.db", "a.log", "a.log.1", "a.md", "a.html", "a.xml", "a.yaml", "a.png", "a.pdf", "a.parquet", "a.tmp",
			"a.lock", "a.pid", "a.bin", "state", "example.org", "a.d.ts"} {
			k.write(in+name, "data")
		}
	}
	k.says("")
}

// TestCode writes files that tools load by name.
func TestCode(t *testing.T) {
	for name := range strings.FieldsSeq(
		`.Rprofile .ghci compose.yaml docker-compose.yml x.nix flake.lock x.csproj x.fsproj x.vbproj x.sln Directory.Build.props x.targets .env .env.local x.mk
		Procfile build.gradle build.gradle.kts gradle-wrapper.properties pom.xml build.xml CMakeLists.txt x.cmake .bazelrc BUILD WORKSPACE MODULE.bazel x.bzl .babelrc .swcrc .mocharc.yml .eslintrc.json .npmrc .yarnrc.yml .nvmrc .envrc .bashrc
		babel.config.json x.tcl x.awk x.sed x.jq x.gemspec gems.rb composer.json composer.lock mix.exs pyvenv.cfg sitecustomize.py x.egg-link x.whl x.egg x.zip x.phar x.war bunfig.toml x.pth python312._pth x.coffee x.vue x.svelte
		requirements-dev.txt MAKEFILE Package.JSON .NPMRC TSCONFIG.Base.json tsconfig.base.json x.deps.json x.runtimeconfig.json libx.so.6 .libx.so.6 .cargo/config .bundle/config Foo.pmc x.zwc x.beam .pylintrc .pnp.data.json go.work meson.build`) {
		k := newKit(t)
		k.accept()
		k.write(name, "changed")
		k.says(name + " (new)")
	}
}

// TestOddFiles uses special, unreadable and linked files.
func TestOddFiles(t *testing.T) {
	k := newProject(t, `cmd = ["node", "../../shared/server.js"]`, "shared/server.js", "node_modules/x/index.js")
	for name, target := range map[string]string{
		"shared/self":         ".",
		"shared/up":           "../extensions",
		"shared/nothing.js":   "missing",
		"shared/other.js":     "../node_modules/x/index.js",
		"node_modules/circle": "../node_modules",
		"shared/null.js":      os.DevNull,
		"shared/loop.js":      "loop.js",
	} {
		if err := os.Symlink(target, filepath.Join(k.Project, name)); err != nil {
			t.Skip("NOT TESTED: links cannot be made: ", err)
		}
	}
	fifo(t, filepath.Join(k.Project, "shared", "pipe.js"))
	k.accept()
	k.says("")
	k.write("../../node_modules/x/index.js", "changed")
	k.says("other.js")
}

// TestLinksToKnownCode: a link to other trusted code is a change, as in pnpm's layout.
func TestLinksToKnownCode(t *testing.T) {
	k := newProject(t, `cmd = ["node", "main.js"]`, "extensions/kit/main.js", "node_modules/.pnpm/x@1/x.js",
		"node_modules/.pnpm/x@2/x.js")
	link := filepath.Join(k.Project, "node_modules", "x")
	for _, version := range []string{"x@1", "x@2"} {
		if err := os.RemoveAll(link); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(".pnpm", version), link); err != nil {
			t.Skip("NOT TESTED: links cannot be made: ", err)
		}
		if version == "x@1" {
			k.accept()
		}
	}
	k.says("node_modules/x/")
}

// TestUnreadable: a file that cannot be read cannot be trusted.
func TestUnreadable(t *testing.T) {
	if os.Getuid() <= 0 {
		t.Skip("NOT TESTED: this user reads all files")
	}
	for _, name := range []string{"../../shared/lib.js", "../../shared", "../../node_modules"} {
		k := newProject(t, `cmd = ["node", "../../shared/server.js"]`, "shared/server.js", "shared/lib.js",
			"node_modules/x/index.js")
		k.accept()
		k.chmod(name, 0o100)
		t.Cleanup(func() { k.chmod(name, 0o700) })
		k.says("cannot be found out")
	}
}

// TestClones compares the digests of two copies of a project, one of them installed and built. exthost.lock
// records only the files that both copies have.
func TestClones(t *testing.T) {
	var digests []string
	for _, installed := range []bool{false, true} {
		k := newProject(t, `cmd = ["node", "../../shared/server.js"]`, "shared/server.js", "shared/lib.js",
			"package.json", "package-lock.json", "check.js")
		if installed {
			k.write("../../node_modules/x/index.js", "x")
			k.write("../../.env.local", "x")
		}
		v, err := k.Extension(k.candidate())
		if err != nil {
			t.Fatal(err)
		}
		cfg := &config.Config{
			Plugins: []governance.Spec{{Cmd: []string{"node", "check.js"}}, {Cmd: []string{"make"}}},
			Project: config.Project{Dir: k.Project},
		}
		w, err := k.Configuration(cfg)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, v.Files.Digest()+w.Files.Digest())
		if _, ok := v.Files["../../node_modules/x/index.js"]; ok != installed {
			t.Error("the package is compared:", ok)
		}
		k.write("../../package-lock.json", "changed")
		if now, err := k.Extension(k.candidate()); err != nil || now.Files.Digest() == v.Files.Digest() {
			t.Errorf("another lock file of packages is no change: %v", err)
		}
	}
	if diff := cmp.Diff(digests[0], digests[1]); diff != "" {
		t.Error("digests of two clones (-first +second):\n", diff)
	}
}

// TestLinkedScript: a script reached through a link loads the files beside its target.
func TestLinkedScript(t *testing.T) {
	for _, interpreter := range []string{"node", "python3"} {
		k := newProject(t, `cmd = ["`+interpreter+`", "main.js"]`, "shared/server.js", "shared/lib.js")
		if err := os.Symlink("../../shared/server.js", filepath.Join(k.dir, "main.js")); err != nil {
			t.Skip("NOT TESTED: links cannot be made: ", err)
		}
		k.accept()
		k.says("")
		k.write("../../shared/lib.js", "changed")
		k.says("shared/lib.js")
	}
}
