package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/clientconfig"
)

// importing are the flags of import.
type importing struct {
	from, as, to   string
	write, secrets bool
}

// What servers can become.
const (
	asExtensions   = "extensions"
	asDestinations = "destinations"
)

func (a *app) importCommand() *cobra.Command {
	var f importing
	cmd := &cobra.Command{
		Use:   "import FILE…",
		Short: "Turn the MCP servers of other programs into extensions or destinations",
		Long: "Read the files that Claude Code, Cursor, VS Code, Codex and Gemini keep their MCP servers\n" +
			"in, and show what they become here; with --write, write it. What cannot be carried over\n" +
			"is said on stderr. Secrets in clear text are replaced by variables, and never written\n" +
			"unless --with-secrets asks for it.",
		Example: "  exthost import ~/.claude.json .cursor/mcp.json\n  exthost import ~/.codex/config.toml --write\n  exthost import .vscode/mcp.json --as destinations",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("exthost import --help", "import needs the path of a file, such as ~/.claude.json")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.importServers(args, f) },
	}
	cmd.Flags().StringVar(&f.as, "as", asExtensions, "what they become: extensions or destinations")
	cmd.Flags().StringVar(&f.from, "from", "", "whose file it is: "+strings.Join(clientconfig.Clients(), ", ")+" (default: as it looks)")
	cmd.Flags().StringVar(&f.to, "to", "", "with --write, the `PATH` to write to: a directory for extensions (default ./extensions), a new file for destinations (default config/destinations.yaml)")
	cmd.Flags().BoolVar(&f.write, "write", false, "write the files; nothing that is there is overwritten")
	cmd.Flags().BoolVar(&f.secrets, "with-secrets", false, "leave secrets in clear text")
	completeFlag(cmd, "as", []string{asExtensions, asDestinations})
	completeFlag(cmd, "from", clientconfig.Clients())
	return cmd
}

// maxSettings bounds the settings of other programs.
const maxSettings = 8 << 20

// imported is what import prints as data.
type imported struct {
	File    string         `json:"file"`
	Client  string         `json:"client"`
	Servers []importServer `json:"servers"`
	Notes   []importNote   `json:"notes"`
	Files   []importFile   `json:"files"`
}

type importServer struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Kind      string   `json:"kind"`
	Variables []string `json:"variables,omitempty"` // to be set before the host starts
}

type importNote struct {
	Server  string `json:"server,omitempty"`
	Dropped bool   `json:"dropped,omitempty"`
	Message string `json:"message"`
}

type importFile struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

func (a *app) importServers(paths []string, f importing) error {
	if f.as != asExtensions && f.as != asDestinations {
		return usagef("exthost import --help", "--as %q: there is %s and %s", f.as, asExtensions, asDestinations)
	}
	if f.from != "" && !slices.Contains(clientconfig.Clients(), f.from) {
		return usagef("exthost import --help", "--from %q: there is %s", f.from, strings.Join(clientconfig.Clients(), ", "))
	}
	var all []imported
	var names []string
	for _, path := range paths {
		one, err := importFrom(path, f)
		if err != nil {
			return err
		}
		a.tellImport(one)
		all = append(all, one)
		for _, s := range one.Servers {
			names = append(names, s.ID)
		}
	}
	if f.write {
		return a.writeImport(all, f)
	}
	var text strings.Builder
	for _, one := range all {
		for _, file := range one.Files {
			fmt.Fprintf(&text, "# %s\n%s\n", file.Path, file.Text)
		}
	}
	return a.print(document{Kind: "import", Value: all, Names: names, Text: safeText(text.String())})
}

// importFrom reads one file and says what becomes of it.
func importFrom(path string, f importing) (imported, error) {
	data, err := readNamed(path, maxSettings, "exthost import ~/.claude.json")
	if err != nil {
		return imported{}, err
	}
	home, _ := os.UserHomeDir() // without one, what refers to it is left out
	r, err := clientconfig.Read(path, data, clientconfig.Options{From: clientconfig.Client(f.from), Home: home, Secrets: f.secrets, Bridge: f.as == asDestinations})
	if err != nil {
		return imported{}, &exitError{code: exitInvalid, text: fmt.Sprintf("%s: %v", path, err), hint: "exthost import --from " + strings.Join(clientconfig.Clients(), "|") + " says whose file it is"}
	}
	out := imported{File: path, Client: string(r.Client), Servers: []importServer{}, Notes: []importNote{}, Files: []importFile{}}
	for _, s := range r.Servers {
		out.Servers = append(out.Servers, importServer{s.ID, s.Name, s.Kind, s.Variables})
	}
	for _, n := range r.Notes {
		out.Notes = append(out.Notes, importNote(n))
	}
	if f.as == asDestinations {
		out.Files = append(out.Files, importFile{importTarget(f), string(r.Destinations())})
		return out, nil
	}
	for _, file := range r.Extensions() {
		out.Files = append(out.Files, importFile{filepath.Join(importTarget(f), filepath.FromSlash(file.Path)), string(file.Data)})
	}
	return out, nil
}

// importTarget is where it is written.
func importTarget(f importing) string {
	switch {
	case f.to != "":
		return f.to
	case f.as == asDestinations:
		return filepath.Join("config", "destinations.yaml")
	}
	return "extensions"
}

// readNamed reads a file that somebody has named, which may have so many bytes. The hint
// is for when there is none.
func readNamed(path string, limit int, hint string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a FIFO would be to wait for whoever writes to it
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &exitError{code: exitNotFound, text: "there is no " + path, hint: hint}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = fmt.Errorf("%s is over %d MiB", path, limit>>20)
	}
	return data, err
}

// tellImport says what of a file is not carried over.
func (a *app) tellImport(one imported) {
	for _, n := range one.Notes {
		level, prefix := a.paint(dim, "info"), ""
		if n.Dropped {
			level, prefix = a.paint(yellow, "warn"), "left out: "
		}
		where := one.File
		if n.Server != "" {
			where += ": " + n.Server
		}
		fmt.Fprintf(a.err, "%s: %s: %s%s\n", level, safe(where), prefix, safe(n.Message))
	}
}

// writeImport writes the files. One that is there already is an error, before any is
// written.
func (a *app) writeImport(all []imported, f importing) error {
	var files []importFile
	from := map[string]string{} // by path
	for _, one := range all {
		for _, file := range one.Files {
			if other := from[file.Path]; other != "" {
				return &exitError{code: exitFailed, text: fmt.Sprintf("%s would come from %s and from %s, and nothing was written", file.Path, other, one.File), hint: "exthost import of one file at a time; --to writes elsewhere"}
			}
			if _, err := os.Lstat(file.Path); err == nil {
				return &exitError{code: exitFailed, text: file.Path + " is there already, and nothing was written", hint: "exthost import without --write prints it; --to writes elsewhere"}
			}
			from[file.Path] = one.File
			files = append(files, file)
		}
	}
	mode := os.FileMode(0o644)
	if f.secrets {
		mode = 0o600
	}
	for _, file := range files {
		if err := os.MkdirAll(filepath.Dir(file.Path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file.Path, []byte(file.Text), mode); err != nil {
			return err
		}
	}
	next := "exthost doctor"
	if f.as == asDestinations {
		next = "exthost config show"
	}
	_, err := fmt.Fprintf(a.err, "%s written below %s\n  next: %s\n", plural(files, "file"), safe(importTarget(f)), next)
	return err
}
