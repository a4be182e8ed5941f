package author

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/clientconfig"
)

// importing are the flags of import.
type importing struct {
	from, as, to   string
	write, secrets bool
}

// The forms that servers are imported in.
const (
	asExtensions   = "extensions"
	asDestinations = "destinations"
)

// Import turns the MCP servers of other programs into extensions or destinations.
func Import(c *console.Console) *cobra.Command {
	var f importing
	cmd := &cobra.Command{
		Use:   "import FILE…",
		Short: "Turn MCP servers of other programs into extensions",
		Long: "Read the files in which Claude Code, Cursor, VS Code, Codex and Gemini configure MCP\n" +
			"servers, and show the same servers as extensions or destinations; --write writes them.\n" +
			"Settings that cannot be carried over are reported on stderr. Secrets in clear text are\n" +
			"replaced by variables, and written only with --with-secrets.",
		Example: "  exthost import ~/.claude.json .cursor/mcp.json\n  exthost import ~/.codex/config.toml --write\n  exthost import .vscode/mcp.json --as destinations",
		Args:    console.AtLeastOne("exthost import --help", "import needs the path of a file, such as ~/.claude.json"),
		RunE:    func(_ *cobra.Command, args []string) error { return f.run(c, args) },
	}
	cmd.Flags().StringVar(&f.as, "as", asExtensions, "the form to write: extensions or destinations")
	cmd.Flags().StringVar(&f.from, "from", "", "the program whose file it is: "+strings.Join(clientconfig.Clients(), ", ")+" (default: detected)")
	cmd.Flags().StringVar(&f.to, "to", "", "with --write, the `PATH` to write to: a directory for extensions (default ./extensions), a new file for destinations (default config/destinations.yaml)")
	cmd.Flags().BoolVar(&f.write, "write", false, "write the files; existing files are never overwritten")
	cmd.Flags().BoolVar(&f.secrets, "with-secrets", false, "write secrets in clear text")
	console.CompleteFlag(cmd, "as", []string{asExtensions, asDestinations})
	console.CompleteFlag(cmd, "from", clientconfig.Clients())
	return cmd
}

// imported is the data of one file.
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

func (f importing) run(c *console.Console, paths []string) error {
	if f.as != asExtensions && f.as != asDestinations {
		return console.Usagef("exthost import --help", "--as %q: there is %s and %s", f.as, asExtensions, asDestinations)
	}
	if f.from != "" {
		if err := console.OneOf("exthost import --help", "--from", f.from, clientconfig.Clients()); err != nil {
			return err
		}
	}
	var all []imported
	var names []string
	for _, path := range paths {
		one, err := f.read(path)
		if err != nil {
			return err
		}
		for _, n := range one.Notes {
			c.Note(strings.TrimSuffix(path+": "+n.Server, ": "), n.Dropped, n.Message)
		}
		all = append(all, one)
		for _, s := range one.Servers {
			names = append(names, s.ID)
		}
	}
	if f.write {
		return f.writeFiles(c, all)
	}
	var text strings.Builder
	for _, one := range all {
		for _, file := range one.Files {
			fmt.Fprintf(&text, "# %s\n%s\n", file.Path, file.Text)
		}
	}
	return c.Print(console.Document{Kind: "import", Value: all, Names: names, Text: console.SafeText(text.String())})
}

// read reads one file and converts its servers.
func (f importing) read(path string) (imported, error) {
	data, err := console.ReadFile(path, console.MaxSettings, "exthost import ~/.claude.json")
	if err != nil {
		return imported{}, err
	}
	home, _ := os.UserHomeDir() // without one, servers that refer to it are left out
	r, err := clientconfig.Read(path, data, clientconfig.Options{From: clientconfig.Client(f.from), Home: home, Secrets: f.secrets, Bridge: f.as == asDestinations})
	if err != nil {
		return imported{}, &console.Error{Code: console.ExitInvalid, Text: fmt.Sprintf("%s: %v", path, err), Hint: "exthost import --from " + strings.Join(clientconfig.Clients(), "|") + " says whose file it is"}
	}
	out := imported{File: path, Client: string(r.Client), Servers: []importServer{}, Notes: []importNote{}, Files: []importFile{}}
	for _, s := range r.Servers {
		out.Servers = append(out.Servers, importServer{s.ID, s.Name, s.Kind, s.Variables})
	}
	for _, n := range r.Notes {
		out.Notes = append(out.Notes, importNote(n))
	}
	if f.as == asDestinations {
		out.Files = append(out.Files, importFile{f.target(), string(r.Destinations())})
		return out, nil
	}
	for _, file := range r.Extensions() {
		out.Files = append(out.Files, importFile{filepath.Join(f.target(), filepath.FromSlash(file.Path)), string(file.Data)})
	}
	return out, nil
}

// target is the path that --write writes to.
func (f importing) target() string {
	switch {
	case f.to != "":
		return f.to
	case f.as == asDestinations:
		return filepath.Join("config", "destinations.yaml")
	}
	return "extensions"
}

// writeFiles writes the files. It writes none when one of them exists already.
func (f importing) writeFiles(c *console.Console, all []imported) error {
	var files []importFile
	from := map[string]string{} // by path
	for _, one := range all {
		for _, file := range one.Files {
			if other := from[file.Path]; other != "" {
				return &console.Error{Code: console.ExitFailed, Text: fmt.Sprintf("%s would come from %s and from %s, and nothing was written", file.Path, other, one.File), Hint: "exthost import of one file at a time; --to writes elsewhere"}
			}
			if _, err := os.Lstat(file.Path); err == nil {
				return &console.Error{Code: console.ExitFailed, Text: file.Path + " is there already, and nothing was written", Hint: "exthost import without --write prints it; --to writes elsewhere"}
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
	_, err := fmt.Fprintf(c.Err, "%s written below %s\n  next: %s\n", console.Plural(len(files), "file"), console.Safe(f.target()), next)
	return err
}
