package docs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/authoring/scaffold"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
)

// published is where the files of the repository can be read.
const published = "https://raw.githubusercontent.com/exthost/exthost/main/"

// schemaFiles are the schemas in the repository, by what the program prints.
var schemaFiles = map[string]func() []byte{
	"config/lock.schema.json":     config.LockSchema,
	"config/schema.json":          config.Schema,
	"manifest/plugin.schema.json": manifest.Schema,
	"manifest/tables.schema.json": manifest.TablesSchema,
}

// TestSchemasArePublished holds the catalog of schemas, which editors can be given, against the schemas.
func TestSchemasArePublished(t *testing.T) {
	var catalog struct {
		Schemas []struct {
			Name, Description, URL string
			FileMatch              []string
		}
	}
	data, err := os.ReadFile("schemas.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &catalog); err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, s := range catalog.Schemas {
		file, ok := strings.CutPrefix(s.URL, published)
		if listed[file] = true; !ok || s.Name == "" || s.Description == "" || len(s.FileMatch) == 0 {
			t.Errorf("%+v is no entry of a catalog", s)
		}
	}
	const tables = "manifest/tables.schema.json" // a plugin.json has the schema of its specification beside it
	for file, schema := range schemaFiles {
		var head struct {
			ID          string `json:"$id"`
			Schema      string `json:"$schema"`
			Title       string
			Description string
		}
		if err := json.Unmarshal(schema(), &head); err != nil {
			t.Fatal(err)
		}
		if head.ID != published+file || head.Schema == "" || head.Title == "" {
			t.Errorf("%s says that it is %+v", file, head)
		}
		if _, err := os.Stat(filepath.Join(root, file)); err != nil || listed[file] == (file == tables) {
			t.Errorf("%s in the catalog: %t, %v", file, listed[file], err)
		}
	}
}

// edited are the files that editors are to accept: what init writes, and the examples. Where a file names the published
// schema, the copy names that of the checkout.
func edited(t *testing.T) (toml, yaml []string) {
	t.Helper()
	dir := t.TempDir()
	languages, _ := scaffold.Languages()
	for _, lang := range languages {
		to := filepath.Join(dir, lang)
		o := scaffold.Options{ID: "in-" + lang, Dir: to, Lang: lang, Version: "0.1.0"}
		if _, err := scaffold.Create(o); err != nil {
			t.Fatal(err)
		}
		toml = append(toml, filepath.Join(to, manifest.FileName))
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	copied := func(path, first string) string {
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if !strings.Contains(text, published) {
			text = first + "\n" + text
		}
		to := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		text = strings.Replace(text, published, "file://"+filepath.ToSlash(absolute)+"/", 1)
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return to
	}
	for _, path := range sources(t, manifest.FileName) {
		rel, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(filepath.ToSlash(rel), "extensions/") {
			toml = append(toml, copied(filepath.ToSlash(rel), "#:schema "+published+"manifest/plugin.schema.json"))
		}
	}
	locked := filepath.Join(dir, "locked.toml") // as taplo knows TOML by its ending
	text := fmt.Sprintf("#:schema file://%s/config/lock.schema.json\n%s", filepath.ToSlash(absolute), lockFile().Text())
	if err := os.WriteFile(locked, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	toml = append(toml, locked)
	for _, path := range []string{"examples/deploy/exthost.yaml", ".ci/release/exthost.yaml"} {
		yaml = append(yaml, copied(path, "# yaml-language-server: $schema="+published+"config/schema.json"))
	}
	return toml, yaml
}

// lockFile is a lock file of an extension of its directory, and of one from a package.
func lockFile() *lock.File {
	sum := lock.Sum([]byte("x"))
	return &lock.File{
		Version:       1,
		Configuration: sum,
		Extensions: map[string]lock.Entry{
			"own": {Manifest: sum, Files: sum, Command: sum, Approved: "2026-11-23T09:00:00Z", ApprovedBy: "ada"},
			"fetch": {
				Source:   "npm:@scope/fetch@^1",
				Version:  "1.2.3",
				Tree:     "h1:" + strings.Repeat("A", 43) + "=",
				Manifest: sum,
				Files:    sum,
				Scripts:  []string{"esbuild"},
				Tools:    map[string]string{"fetch/get page": sum},
				Parts:    []lock.Part{{Name: "dep", Version: "1.0.0", URL: "https://r/y.tgz", Integrity: "sha512-y"}},
			},
		},
	}
}

// editor returns a program of npm, or skips the test.
func editor(t *testing.T, name string) string {
	t.Helper()
	processtest.Optional(t)
	path := filepath.Join(os.Getenv("EXTHOST_PEERS"), "node_modules", ".bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("NOT TESTED: schemas with %s: .ci/peers has not installed it", name)
	}
	return path
}

// TestTaploAcceptsManifests has the checker of editors for TOML read manifests and a lock file by their #:schema lines.
func TestTaploAcceptsManifests(t *testing.T) {
	taplo := editor(t, "taplo")
	files, _ := edited(t)
	out, err := exec.CommandContext(t.Context(), taplo, append([]string{"lint", "--no-auto-config"}, files...)...).
		CombinedOutput()
	if err != nil || len(files) < 12 {
		t.Errorf("%d files: %v\n%s", len(files), err, out)
	}
	for file, wrong := range map[string]string{
		files[0]:            "\n[runtime]\nactivation = \"soon\"\n",
		files[len(files)-1]: "\n[extensions.x]\nmanifest = \"none\"\nfiles = \"x\"\n",
	} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "wrong.toml")
		if err := os.WriteFile(path, append(data, wrong...), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err = exec.CommandContext(t.Context(), taplo, "lint", "--no-auto-config", path).CombinedOutput()
		if err == nil {
			t.Errorf("%s: a wrong word is accepted: %s", filepath.Base(file), out)
		}
	}
}

// TestYAMLServerAcceptsConfigurations has the language server of editors for YAML read configurations by their first
// lines.
func TestYAMLServerAcceptsConfigurations(t *testing.T) {
	program := editor(t, "yaml-language-server")
	_, files := edited(t)
	s := startLanguageServer(t, program)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := s.check(t, file, string(data)); len(found) > 0 {
			t.Errorf("%s: %q", file, found)
		}
		if found := s.check(t, file+".wrong.yaml", string(data)+"log: {level: loud}\n"); len(found) == 0 {
			t.Errorf("%s: a wrong word is accepted", file)
		}
	}
}

// languageServer is a server of the Language Server Protocol on stdin and stdout.
type languageServer struct {
	in  io.Writer
	out *bufio.Reader
}

func startLanguageServer(t *testing.T, program string) *languageServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, "--stdio")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		cancel()
		_ = cmd.Wait()
	})
	s := &languageServer{in: in, out: bufio.NewReader(out)}
	s.send(t, map[string]any{"id": 1, "method": "initialize", "params": map[string]any{
		"processId":    os.Getpid(),
		"rootUri":      nil,
		"capabilities": map[string]any{},
	}})
	s.until(t, func(m *lspMessage) bool { return m.Method == "" && string(m.ID) == "1" })
	s.send(t, map[string]any{"method": "initialized", "params": map[string]any{}})
	s.send(t, map[string]any{"method": "workspace/didChangeConfiguration", "params": map[string]any{
		"settings": map[string]any{
			"yaml": map[string]any{"validate": true, "schemaStore": map[string]any{"enable": false}},
		},
	}})
	return s
}

type lspMessage struct {
	ID     json.RawMessage
	Method string
	Params struct {
		URI         string
		Diagnostics []struct{ Message string }
	}
}

func (s *languageServer) send(t *testing.T, message map[string]any) {
	t.Helper()
	message["jsonrpc"] = "2.0"
	data, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(s.in, "Content-Length: %d\r\n\r\n%s", len(data), data); err != nil {
		t.Fatal(err)
	}
}

// until reads messages up to the one that is wanted.
func (s *languageServer) until(t *testing.T, wanted func(*lspMessage) bool) *lspMessage {
	t.Helper()
	for {
		header, err := textproto.NewReader(s.out).ReadMIMEHeader()
		if err != nil {
			t.Fatal(err)
		}
		size, err := strconv.Atoi(header.Get("Content-Length"))
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, size)
		if _, err := io.ReadFull(s.out, data); err != nil {
			t.Fatal(err)
		}
		m := new(lspMessage)
		var syntax *json.SyntaxError
		if err := json.Unmarshal(data, m); errors.As(err, &syntax) {
			t.Fatalf("%v: %s", err, data)
		}
		if wanted(m) {
			return m
		}
	}
}

// check opens a document and returns what the server says of it.
func (s *languageServer) check(t *testing.T, file, text string) (found []string) {
	t.Helper()
	uri := (&url.URL{Scheme: "file", Path: filepath.ToSlash(file)}).String()
	s.send(t, map[string]any{"method": "textDocument/didOpen", "params": map[string]any{
		"textDocument": map[string]any{"uri": uri, "languageId": "yaml", "version": 1, "text": text},
	}})
	m := s.until(t, func(m *lspMessage) bool {
		return m.Method == "textDocument/publishDiagnostics" && m.Params.URI == uri
	})
	for _, d := range m.Params.Diagnostics {
		found = append(found, d.Message)
	}
	slices.Sort(found)
	return found
}
