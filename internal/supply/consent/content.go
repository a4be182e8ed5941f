package consent

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/file/regular"
)

// dataEndings are the endings of files that no program loads as code: documents, tables, databases with
// their journals, pictures, archives of data. Their content is not looked at.
var dataEndings = set(`.txt .md .markdown .rst .adoc .org .tex .csv .tsv .json .jsonl .ndjson .json5 .jsonc .geojson .yaml .yml .xml .html .htm .css .scss
	.ini .conf .cfg .cnf .plist .properties .srt .vtt .ics .vcf .eml .mbox .log .out .err .diff .patch
	.db .db3 .sqlite .sqlite3 .sqlite-wal .sqlite-shm .sqlite-journal .db-wal .db-shm .db-journal .duckdb .wal .shm .journal .mdb .ldb .sst .rdb .aof .lmdb .kuzu
	.parquet .arrow .feather .avro .orc .npy .npz .h5 .hdf5 .mat .safetensors .gguf .onnx .faiss .index .idx
	.png .jpg .jpeg .gif .webp .bmp .ico .svg .tif .tiff .heic .avif .mp3 .mp4 .m4a .wav .ogg .flac .webm .mov .avi .mkv
	.pdf .epub .doc .docx .xls .xlsx .ppt .pptx .odt .ods .odp .rtf .woff .woff2 .ttf .otf .eot
	.tar .gz .tgz .bz2 .xz .zst .7z .rar .lock .lck .pid .tmp .temp .swp .bak .part .map .snap .pem .crt .key`)

// settingsEndings are those of dataEndings whose files may also say what runs.
var settingsEndings = set(".json .json5 .jsonc .yaml .yml .xml .ini .conf .cfg .cnf .plist .properties")

// namesData reports whether a file is data by its name. Declarations of types are, which never run.
func namesData(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	return dataEndings[filepath.Ext(name)] || types(name)
}

// namesSettings reports whether a file is data by its name that may say what runs.
func namesSettings(path string) bool { return settingsEndings[strings.ToLower(filepath.Ext(path))] }

func set(words string) map[string]bool {
	m := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		m[word] = true
	}
	return m
}

// settingsName matches names of options, of variables and of files that are about settings.
var settingsName = regexp.MustCompile(
	`(?i)conf(ig)?([^a-z]|$)|config|settings|rules|polic(y|ies)|plugin|module|script|hook|preset|profile|startup|makefile|compose|servers?[._-]|rcfile|init-file|^-c$|^env$|^\.env`)

// maxHead is how much of a file is read to tell code from data, in bytes.
const maxHead = 4096

// binaries are the first bytes of files that are run or loaded: scripts, ELF, Mach-O, PE, WebAssembly, classes
// of Java.
var binaries = []string{"#!", "\x7fELF", "\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf", "\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe",
	"\xca\xfe\xba\xbe", "MZ", "\x00asm"}

// codeLine matches a line as programs consist of, in the languages whose files need no ending.
var codeLine = regexp.MustCompile(`(?m)^[ \t]*(?:` + strings.Join([]string{
	`(?:const|let|var)\s+[\w{\[$][^\n]*=`, `(?:async\s+)?function\b[^\n]*\(`, `module\.exports\b`, `exports\.\w+\s*=`,
	`export\s+(?:default|const|function|class|async|\{|\w+=)`,
	`['"]use strict['"]`, `import\s+[\w{*'"]`, `require\s*\(`, `require\s+['"]`, `require_relative\b`, `process\.\w+`,
	`console\.\w+\(`, `globalThis\.`,
	`from\s+[\w.]+\s+import\b`, `(?:async\s+)?def\s+\w+`, `class\s+\w+[^\n]*[:{]\s*$`, `print\s*\(`, `os\.\w+\(`,
	`exec\s*\(`, `eval\s*\(`,
	`exec\s+\S`, `eval\s+\S`, `source\s+\S`, `\.\s+[\w./~$"]`, `echo\s+\S`, `printf\s+\S`, `set\s+-\w`, `if\s+\[`,
	`if\s+test\b`, `for\s+\w+\s+in\b`, `while\s+\S+.*;?\s*do\b`,
	`\w+\s*\(\)\s*\{`, `(?:touch|rm|cp|mv|curl|wget|cat|sh|bash|python3?|node|sudo|chmod|mkdir|exit|cd|trap|unset|alias)\s+\S`, `\w+=\$\(`, `(?:use|package)\s+[\w:]+;`, `<\?php`,
	`[.\w-]+\s*:(?:\s+[\w./-]+)*\n\t\S`, // a rule of a Makefile
}, "|") + `)`)

// looks remembers of files that their name says nothing about whether they hold code. Nil remembers nothing.
type looks struct{ of sync.Map } // look by path

type look struct {
	version regular.Version
	code    bool
}

// holdsCode reports whether the content of a file is code: what systems run, or text as programs consist of.
// A file that is not there holds none.
func (l *looks) holdsCode(path string, info fs.FileInfo) (bool, error) {
	now := regular.VersionOf(info)
	if l != nil {
		if was, ok := l.of.Load(path); ok && was.(look).version.Is(now) {
			return was.(look).code, nil
		}
	}
	code, err := holdsCode(path)
	if l != nil && err == nil {
		l.of.Store(path, look{now, code})
	}
	return code, err
}

func holdsCode(path string) (bool, error) {
	f, _, err := regular.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return false, gone(err)
	}
	defer f.Close()
	head := make([]byte, maxHead)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	head = head[:n]
	for _, start := range binaries {
		if bytes.HasPrefix(head, []byte(start)) {
			return true, nil
		}
	}
	// where git writes messages
	text := bytes.IndexByte(head, 0) < 0 && !strings.Contains(filepath.ToSlash(path), "/.git/")
	return text && codeLine.Match(head), nil
}

// code reports whether a file may decide what runs: by its name, its mode, or its content where the name says
// nothing.
func (l *looks) code(path string, info fs.FileInfo) (bool, error) {
	switch {
	case IsCode(path, info.Mode()):
		return true, nil
	case namesData(path):
		return false, nil
	}
	return l.holdsCode(path, info)
}

// HoldsCode reports whether a file in a folder of code may decide what runs, as those of [Folder] do. One that
// cannot be read may.
func HoldsCode(path string, info fs.FileInfo) bool {
	code, err := (*looks)(nil).code(path, info)
	return code || err != nil
}

// isData reports whether a file that a program is given may change: it is not code, and nothing about it, nor
// the option or variable that names it, says that it holds settings.
func isData(by, path string, info fs.FileInfo) bool {
	switch {
	case IsCode(path, info.Mode()):
		return false
	case namesData(path) && !namesSettings(path):
		return true
	case settingsName.MatchString(by) || settingsName.MatchString(filepath.Base(path)):
		return holdsData(path)
	case namesData(path):
		return true
	}
	code, err := holdsCode(path)
	return err == nil && !code
}

// holdsData reports whether a file is binary and not code, as databases are.
func holdsData(path string) bool {
	f, _, err := regular.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, maxHead))
	return err == nil && bytes.IndexByte(head, 0) >= 0 && !bytes.HasPrefix(head, []byte("\x7fELF"))
}
