package consent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/manifest"
)

// Programs returns the files that the command lines of a manifest name, its hooks among them,
// and the files and folders of code that its variables have programs load, such as LD_PRELOAD
// and PYTHONPATH. A program that is found on PATH or stated with an absolute path belongs to
// the system, not to the folder.
func Programs(m *manifest.Manifest, dir string) (files []string) {
	cwd := dir
	if m.Transport.Cwd != "" {
		cwd = absolute(dir, m.Transport.Cwd)
	}
	argv := m.Transport.CommandLine()
	files = append(words(argv, dir, cwd), loaded(m.Transport.Env, cwd)...)
	if m.Transport.Script != "" {
		files = append(files, regularFiles(absolute(dir, m.Transport.Script))...)
	}
	for _, t := range m.Tools {
		files = append(files, words(t.Command, dir, cwd)...)
	}
	for _, h := range m.Hooks {
		files = append(files, words(h.Command, dir, dir)...)
	}
	for _, s := range m.MCPServers {
		t := s.Transport()
		in := dir
		if t.Cwd != "" {
			in = absolute(dir, t.Cwd)
		}
		files = slices.Concat(files, words(t.CommandLine(), dir, in), loaded(t.Env, in))
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// ConfiguredPrograms returns the files below dir that the command lines of a configuration
// name, those of its policies, hooks and destinations, what their variables have programs load,
// and the folders of the scripts among them: a script may load what lies beside it. Scripts directly in dir stand for themselves.
func ConfiguredPrograms(cfg *config.Config, dir string) (paths []string) {
	for _, p := range cfg.Plugins {
		t := manifest.Transport{Cmd: p.Cmd, Cwd: p.Cwd, Env: p.Env}
		if m := p.MCP; m != nil {
			t = manifest.Transport{Cmd: m.Cmd, Script: m.Script, Cwd: m.Cwd, Env: m.Env}
		}
		paths = append(paths, CommandPrograms(&t, dir)...)
	}
	for _, h := range cfg.Hooks {
		paths = append(paths, CommandPrograms(&manifest.Transport{Cmd: h.Command}, dir)...)
	}
	for _, d := range cfg.Destinations {
		paths = append(paths, CommandPrograms(&manifest.Transport{Cmd: d.Command, Cwd: d.Cwd, Env: d.Env}, dir)...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// CommandPrograms are the [ConfiguredPrograms] of one command.
func CommandPrograms(t *manifest.Transport, dir string) []string {
	cwd := absolute(dir, t.Cwd)
	files := slices.Concat(words(t.CommandLine(), dir, cwd), words([]string{"", t.Script}, dir, cwd))
	if i := slices.IndexFunc(files, func(f string) bool { return codeEndings[strings.ToLower(filepath.Ext(f))] }); i >= 0 {
		files = append(files, filepath.Dir(files[i]))
	}
	return slices.DeleteFunc(append(files, loaded(t.Env, cwd)...), func(f string) bool {
		rel, err := filepath.Rel(dir, f)
		return err != nil || !filepath.IsLocal(rel) || rel == "."
	})
}

// words returns the files among the words of a command line, and among the words of shell
// lines in it. The program of the line starts from dir, its arguments from cwd.
func words(argv []string, dir, cwd string) (files []string) {
	for i, word := range argv {
		switch {
		case i > 0:
			files = append(files, regularFiles(absolute(cwd, word))...)
			if _, value, ok := strings.Cut(word, "="); ok { // --config=FILE
				files = append(files, regularFiles(absolute(cwd, value))...)
			}
			files = append(files, ofLine(word, cwd)...)
		case !filepath.IsAbs(word) && strings.ContainsAny(word, `/\`):
			files = append(files, regularFiles(absolute(dir, word))...)
		}
		if i > 0 && argv[i-1] == "-m" { // python -m package.module
			module := absolute(cwd, strings.ReplaceAll(word, ".", "/"))
			files = slices.Concat(files, regularFiles(module+".py"), regularFiles(filepath.Join(module, "__main__.py")))
		}
	}
	return files
}

// loaded returns the files and folders that variables have programs load code from: the
// elements of a list, the words of options, and what follows the letter of one (-r./file).
func loaded(env map[string]string, cwd string) (paths []string) {
	for name, value := range env {
		if !process.LoadsCode(name) {
			continue
		}
		for _, word := range strings.FieldsFunc(value, func(r rune) bool { return r == os.PathListSeparator || strings.ContainsRune(" \t=\"'", r) }) {
			candidates := []string{strings.TrimPrefix(word, "//")} // file:///x, cut at the colon
			if len(word) > 2 && word[0] == '-' {
				candidates = append(candidates, word[2:])
			}
			for _, path := range candidates {
				path = absolute(cwd, path)
				if info, err := os.Stat(path); err == nil && (info.IsDir() || info.Mode().IsRegular()) {
					paths = append(paths, path)
				}
			}
		}
	}
	return paths
}

// ofLine returns the files of code that a line for a shell names. Others are left out: a line
// may well write them.
func ofLine(word, cwd string) (files []string) {
	fields := strings.FieldsFunc(word, func(r rune) bool { return strings.ContainsRune(" \t\n;&|<>(){}'\"`=", r) })
	if len(fields) < 2 {
		return nil
	}
	for _, field := range fields {
		path := absolute(cwd, field)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && isCode(filepath.Base(path), info.Mode()) {
			files = append(files, path)
		}
	}
	return files
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

func regularFiles(path string) []string {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return []string{path}
}
