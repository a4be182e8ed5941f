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

	"github.com/exthost/exthost/internal/file"
)

// dataEndings are the file extensions of files that no program loads as code: documents, tables, databases and their
// journals, images, archives of data. The content of such files is not examined.
var dataEndings = set(`.txt .md .markdown .rst .adoc .org .tex .csv .tsv .json .jsonl .ndjson .json5 .jsonc .geojson .yaml .yml .xml
	.html .htm .css .scss .ini .conf .cfg .cnf .plist .properties .srt .vtt .ics .vcf .eml .mbox .log .out .err .diff .patch
	.db .db3 .sqlite .sqlite3 .sqlite-wal .sqlite-shm .sqlite-journal .db-wal .db-shm .db-journal
	.duckdb .wal .shm .journal .mdb .ldb .sst .rdb .aof .lmdb .kuzu
	.parquet .arrow .feather .avro .orc .npy .npz .h5 .hdf5 .mat .safetensors .gguf .onnx .faiss .index .idx
	.png .jpg .jpeg .gif .webp .bmp .ico .svg .tif .tiff .heic .avif .mp3 .mp4 .m4a .wav .ogg .flac .webm .mov .avi .mkv
	.pdf .epub .doc .docx .xls .xlsx .ppt .pptx .odt .ods .odp .rtf .woff .woff2 .ttf .otf .eot
	.tar .gz .tgz .bz2 .xz .zst .7z .rar .lock .lck .pid .tmp .temp .swp .bak .part .map .snap .pem .crt .key`)

// settingsEndings are the dataEndings of files that may also be settings, and so affect what runs.
var settingsEndings = set(".json .json5 .jsonc .yaml .yml .xml .ini .conf .cfg .cnf .plist .properties")

// namesData reports whether the name of a file is one of data. Type declarations are data too: they never run.
func namesData(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	return dataEndings[filepath.Ext(name)] || isTypes(name)
}

// namesSettings reports whether the name of a data file is one that settings may have.
func namesSettings(path string) bool { return settingsEndings[strings.ToLower(filepath.Ext(path))] }

func set(words string) map[string]bool {
	m := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		m[word] = true
	}
	return m
}

// settingsName matches options, variables and files that concern settings.
var settingsName = regexp.MustCompile(
	`(?i)conf(ig)?([^a-z]|$)|config|settings|rules|polic(y|ies)|plugin|` +
		`module|script|hook|preset|profile|startup|makefile|compose|servers?[._-]` +
		`|rcfile|init-file|^-c$|^env$|^\.env`)

// maxHead is how many bytes of a file are examined.
const maxHead = 4096

// binaries are magic numbers of executables and libraries: scripts, ELF, Mach-O, PE, WebAssembly, Java classes.
var binaries = []string{"#!", "\x7fELF", "\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf", "\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe",
	"\xca\xfe\xba\xbe", "MZ", "\x00asm"}

// codeLines are typical lines of programs, in languages whose files need no extension.
var codeLines = []string{
	`(?:const|let|var)\s+[\w{\[$][^\n]*=`, `(?:async\s+)?function\b[^\n]*\(`, `module\.exports\b`, `exports\.\w+\s*=`,
	`export\s+(?:default|const|function|class|async|\{|\w+=)`,
	`['"]use strict['"]`, `import\s+[\w{*'"]`, `require\s*\(`, `require\s+['"]`, `require_relative\b`, `process\.\w+`,
	`console\.\w+\(`, `globalThis\.`,
	`from\s+[\w.]+\s+import\b`, `(?:async\s+)?def\s+\w+`, `class\s+\w+[^\n]*[:{]\s*$`, `print\s*\(`, `os\.\w+\(`,
	`exec\s*\(`, `eval\s*\(`,
	`exec\s+\S`, `eval\s+\S`, `source\s+\S`, `\.\s+[\w./~$"]`, `echo\s+\S`, `printf\s+\S`, `set\s+-\w`, `if\s+\[`,
	`if\s+test\b`, `for\s+\w+\s+in\b`, `while\s+\S+.*;?\s*do\b`,
	`\w+\s*\(\)\s*\{`,
	`(?:touch|rm|cp|mv|curl|wget|cat|sh|bash|python3?|node|sudo|chmod|mkdir|exit|cd|trap|unset|alias)\s+\S`,
	`\w+=\$\(`, `(?:use|package)\s+[\w:]+;`, `<\?php`,
	`[.\w-]+\s*:(?:\s+[\w./-]+)*\n\t\S`, // a Makefile rule
}

// codeLine matches the beginnings of codeLines.
var codeLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*(?:` + strings.Join(codeLines, "|") + `)`)
})

// contentCache caches the content checks of files whose names are inconclusive, from one walk of a folder to the next.
// It keeps no check of a file that the last walk has not met: extensions may write files under ever new names. A nil
// contentCache caches nothing.
type contentCache struct {
	before, now map[string]contentCheck // of the walk before and of this one, by path
}

type contentCheck struct {
	version file.Version
	code    bool
}

// holdsCode reports whether a file contains code: an executable format, or text with typical lines of programs. A
// missing file contains none.
func (l *contentCache) holdsCode(path string, info fs.FileInfo) (bool, error) {
	if l == nil {
		return holdsCode(path)
	}
	now := file.VersionOf(info)
	if was, ok := l.before[path]; ok && was.version.Is(now) {
		l.now[path] = was
		return was.code, nil
	}
	code, err := holdsCode(path)
	if err == nil {
		l.now[path] = contentCheck{now, code}
	}
	return code, err
}

func holdsCode(path string) (bool, error) {
	f, _, err := file.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return false, ignoreMissing(err)
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
	// git writes messages, not code, to .git
	text := bytes.IndexByte(head, 0) < 0 && !strings.Contains(filepath.ToSlash(path), "/.git/")
	return text && codeLine().Match(head), nil
}

// code reports whether a file may affect what runs: by name or mode, or by content if the name is inconclusive.
func (l *contentCache) code(path string, info fs.FileInfo) (bool, error) {
	switch {
	case IsCode(path, info.Mode()):
		return true, nil
	case namesData(path):
		return false, nil
	}
	return l.holdsCode(path, info)
}

// HoldsCode reports whether a file in a code folder may affect what runs, by the rules of [Folder]. It reports
// true for an unreadable file.
func HoldsCode(path string, info fs.FileInfo) bool {
	code, err := (*contentCache)(nil).code(path, info)
	return code || err != nil
}

// isData reports whether a program may change the file at path: it is not code, and neither its name nor the
// option or variable that names it (by) suggests settings.
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

// holdsData reports whether a file is binary but not an executable, like a database.
func holdsData(path string) bool {
	f, _, err := file.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, maxHead))
	return err == nil && bytes.IndexByte(head, 0) >= 0 && !bytes.HasPrefix(head, []byte("\x7fELF"))
}
