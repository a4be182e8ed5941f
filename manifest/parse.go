package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/text/diagnostics"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

// The codes of this package's diagnostics.
const (
	CodeInvalid     = "manifest_invalid"   // Error: plugin.toml is invalid
	CodeTooLarge    = "manifest_too_large" // Error: over a size limit, and not parsed
	CodeUnreadable  = "file_unreadable"    // Error: the file cannot be opened or read
	CodeNotRegular  = "not_regular"        // Error: a FIFO, socket, device or directory where a file belongs
	CodeUnsupported = "not_supported"      // Info: accepted without effect
	CodeExhausted   = "host_exhausted"     // Error: the host has no file descriptor left to read the file
	CodeSidecar     = "sidecar_invalid"    // Error: .mcp.json, or one of its servers, is invalid
	CodeSidecarNote = "sidecar_note"       // Info: something in .mcp.json was guessed or has no effect
)

// MaxBytes bounds the size of a plugin.toml and a .mcp.json.
const MaxBytes = 64 << 10

// rules bound an untrusted file: one dotted key of 10 KB costs the TOML parser half a gigabyte.
var rules = strict.Rules{Depth: 24, Parts: 24, KeyBytes: 1024, Work: 100_000, AtKeys: true}

// Parse reads a plugin.toml; path appears in diagnostics only. It reports every unknown key, wrong type and broken
// rule at once, unless there is a syntax error. The manifest is nil if any diagnostic is an Error. A file over
// [MaxBytes], or nested too deeply, is refused before it is parsed.
func Parse(path string, data []byte) (*Manifest, []protocol.Diagnostic) {
	return parse(path, data, nil)
}

// parse is [Parse], but a manifest that states no MCP servers gets those of beside, which reads a .mcp.json. Nil: there
// is none.
func parse(path string, data []byte, beside func() map[string]Server) (*Manifest, []protocol.Diagnostic) {
	r := &strict.Report{Code: CodeInvalid}
	root := read(path, data, r, strict.TOML)
	if root == nil {
		return nil, r.Diagnostics
	}
	m := &Manifest{Translated: bytes.HasPrefix(data, []byte(TranslatedMark))}
	d := strict.Decoder{
		Report: r,
		Exact:  true,
		Unknown: func(f strict.Field, known []string, message string) {
			hint := suggest(f.Key, known, len(r.Diagnostics))
			if kind := MeantKind(f.Value.Text); f.Key == "transport" && kind != "" && slices.Contains(known, "kind") {
				hint = fmt.Sprintf("write kind = %q", kind)
			}
			r.Add(f.Pos, hint, "%s", message)
		},
	}
	d.Decode("", root, m)
	for i, found := range r.Diagnostics {
		if found.Message == "transport.command: want a string, got an array" {
			r.Diagnostics[i].Hint = "command is the program alone; put the rest into args"
		}
	}
	v := validator{Report: r, places: d.Positions, m: m}
	switch {
	case beside == nil:
	case m.MCPServers == nil && !v.stated("mcp_servers"):
		m.MCPServers = beside()
	default:
		r.Diagnose(protocol.LevelInfo, CodeSidecarNote, v.at("mcp_servers"), "",
			"%s is not used: the manifest has [mcp_servers] of its own", SidecarName)
	}
	v.manifest()
	sortByPosition(r.Diagnostics)
	diags := diagnostics.Capped(r.Diagnostics, maxDiagnostics)
	if ValidateID(m.Plugin.ID) == nil {
		for i := range diags {
			diags[i].Extension = m.Plugin.ID
		}
	}
	if strict.Failed(diags) {
		return nil, diags
	}
	return m, diags
}

// read returns the tree of a file, or nil after reporting an error.
func read(path string, data []byte, r *strict.Report, parse func(*strict.Source,
	strict.Rules) (*strict.Node, *strict.Refusal)) *strict.Node {
	if len(data) > MaxBytes {
		r.Diagnose(protocol.LevelError, CodeTooLarge, strict.Pos{File: path}, "", "the file has more than %d KiB",
			MaxBytes>>10)
		return nil
	}
	src := strict.NewSource(path, data)
	bad, nul := src.Invalid(), strings.IndexByte(src.Text, 0)
	switch {
	case strings.HasPrefix(src.Text, "\xff\xfe") || strings.HasPrefix(src.Text, "\xfe\xff"):
		r.Add(src.Pos(0), "save the file as UTF-8", "the file is UTF-16")
		return nil
	case bad >= 0:
		r.Add(src.Pos(bad), "save the file as UTF-8", "byte 0x%02X is not UTF-8", src.Text[bad])
		return nil
	case nul >= 0:
		r.Add(src.Pos(nul), "save the file as UTF-8 text", "the file has a NUL byte")
		return nil
	}
	root, refusal := parse(src, rules)
	if refusal != nil {
		code := r.Code
		if refusal.Limit {
			code = CodeTooLarge
		}
		r.Diagnose(protocol.LevelError, code, refusal.Pos, "", "%s", lowerFirst(refusal.Message))
	}
	return root
}

func lowerFirst(s string) string {
	if s == "" || len(s) > 1 && 'A' <= s[1] && s[1] <= 'Z' {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// maxSuggestions bounds the work for a file without known keys.
const maxSuggestions = 100

// suggest guesses which key an unknown one stands for: a similar one of the same table, or the same key of
// another.
func suggest(key string, known []string, reported int) string {
	if reported > maxSuggestions {
		return ""
	}
	if hint := strict.DidYouMean(key, known); hint != "" {
		return hint
	}
	t := reflect.TypeFor[Manifest]()
	for i, section := range strict.Keys(t) {
		if table := t.Field(i).Type; table.Kind() == reflect.Struct && slices.Contains(strict.Keys(table), key) {
			return fmt.Sprintf("it belongs in [%s]", section)
		}
	}
	return ""
}

// sortByPosition sorts the diagnostics of one file by line.
func sortByPosition(diags []protocol.Diagnostic) {
	slices.SortStableFunc(diags, func(a, b protocol.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
	})
}

// maxDiagnostics bounds the diagnostics of one file. More would hide those of other files.
const maxDiagnostics = 50

// ReadOptions configures [ReadFile].
type ReadOptions struct {
	FollowLinks bool // default: links are refused

	// Refuse may reject an opened file, for example because of its owner. Default: every file is accepted.
	Refuse func(path string, info fs.FileInfo) *protocol.Diagnostic
}

// ReadFile reads a plugin.toml as [Parse] does, and a .mcp.json beside it as [ParseSidecar] does. The manifest gets the
// servers of .mcp.json unless it states its own, and then that file is not read. Both must be regular files. An Error
// about .mcp.json leaves the manifest usable.
func ReadFile(path string, o ReadOptions) (*Manifest, []protocol.Diagnostic) {
	data, diag := readRegular(path, o)
	if diag != nil {
		return nil, []protocol.Diagnostic{*diag}
	}
	sidecar := filepath.Join(filepath.Dir(path), SidecarName)
	if _, err := os.Lstat(sidecar); errors.Is(err, fs.ErrNotExist) {
		return parse(path, data, nil)
	}
	var notes []protocol.Diagnostic
	m, diags := parse(path, data, func() (servers map[string]Server) {
		servers, notes = readSidecar(sidecar, o)
		return servers
	})
	return m, append(diags, notes...)
}

func readSidecar(path string, o ReadOptions) (map[string]Server, []protocol.Diagnostic) {
	data, diag := readRegular(path, o)
	if diag != nil {
		return nil, []protocol.Diagnostic{*diag}
	}
	return ParseSidecar(path, data)
}

// readRegular returns the content of a regular file, cut just over [MaxBytes].
func readRegular(path string, o ReadOptions) ([]byte, *protocol.Diagnostic) {
	data, info, err := file.ReadRegular(path, MaxBytes+1, o.FollowLinks)
	if err == nil {
		if o.Refuse != nil {
			if d := o.Refuse(path, info); d != nil {
				return nil, d
			}
		}
		return data, nil
	}
	d := &protocol.Diagnostic{
		Level:   protocol.LevelError,
		Code:    CodeUnreadable,
		Path:    path,
		Message: "the file cannot be read: " + err.Error(),
	}
	if kind, ok := errors.AsType[file.NotRegular](err); ok {
		d.Code, d.Message = CodeNotRegular, "the file is "+string(kind)
		// the diagnostic has the path already
	} else if failed, ok := errors.AsType[*fs.PathError](err); ok && failed.Op == "open" {
		d.Message = "the file cannot be opened: " + failed.Err.Error()
	} else if ok {
		d.Message = "the file cannot be read: " + failed.Err.Error()
	}
	if file.Exhausted(err) {
		d.Code = CodeExhausted
	}
	return nil, d
}
