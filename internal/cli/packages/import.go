package packages

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/local/clientconfig"
	"github.com/exthost/exthost/internal/local/vendorplugin"
	"github.com/exthost/exthost/internal/text"
)

// importing holds the flags of import.
type importing struct {
	from, as, to         string
	write, secrets, lock bool

	vault *vault // nil: secrets are replaced by variables
}

// The values of --as.
const (
	asExtensions   = "extensions"
	asDestinations = "destinations"
)

// Import returns exthost import, which turns MCP servers of other programs into extensions or destinations.
func Import(c *console.Console) *cobra.Command {
	var f importing
	cmd := &cobra.Command{
		Use:   "import [FILE…]",
		Short: "Take over servers and policies of other programs",
		Long: "Read the files in which Claude Code, Cursor, VS Code, Codex, Gemini, Cline, Goose,\n" +
			"Continue, opencode, mcpv, ContextForge, nexo and files of destinations configure\n" +
			"servers and policies, and show the same as\n" +
			"extensions, destinations and policies; --write writes them, and adds to files that exist.\n" +
			"Of the folder or the manifest of a plugin of Claude Code, Codex, Gemini or Cursor, show the\n" +
			"plugin.toml with which exthost add runs it; --write adds it.\n" +
			"Without a file, list the known files on this machine; on a terminal, ask which to import.\n" +
			"Settings that cannot be carried over are reported on stderr. Secrets in clear text are stored\n" +
			"(exthost secret list), those of command lines and destinations replaced by variables; they are\n" +
			"written only with --with-secrets. With --lock, what npx or uvx would\n" +
			"download at each start is added as exthost add does: resolved now, and locked in exthost.lock.\n" +
			"What cannot be locked is not imported then.",
		Example: "  exthost import ~/.claude.json .cursor/mcp.json\n  exthost import ~/.codex/config.toml --write\n  " +
			"exthost import .mcp.json --write --lock\n  exthost import .vscode/mcp.json --as destinations",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if !f.secrets {
				if f.vault, err = openVault(cmd.Context(), c); err != nil {
					return err
				}
			}
			if len(args) == 0 {
				return f.known(cmd.Context(), c, cmd.InOrStdin())
			}
			return f.run(cmd.Context(), c, args)
		},
	}
	cmd.Flags().StringVar(&f.as, "as", "",
		"the form to write: extensions or destinations (default extensions; of a file of destinations, destinations)")
	cmd.Flags().StringVar(&f.from, "from", "",
		"the program whose file it is: "+strings.Join(clientconfig.Clients(), ", ")+" (default: detected)")
	cmd.Flags().StringVar(&f.to, "to", "",
		"with --write, the `PATH` to write to: a directory for extensions (default ./extensions), a file for "+
			"destinations (default exthost.yaml where there is one, else config/destinations.yaml)")
	cmd.Flags().BoolVar(&f.write, "write", false, "write the files; what existing files say already is kept")
	cmd.Flags().BoolVar(&f.secrets, "with-secrets", false, "write secrets in clear text")
	cmd.Flags().BoolVar(&f.lock, "lock", false, "with --write, lock packages that npx, uvx and their kind download")
	console.CompleteFlag(cmd, "as", []string{asExtensions, asDestinations})
	console.CompleteFlag(cmd, "from", clientconfig.Clients())
	return cmd
}

// imported is the result for one file.
type imported struct {
	File    string         `json:"file"`
	Client  string         `json:"client"`
	Servers []importServer `json:"servers"`
	Notes   []importNote   `json:"notes"`
	Files   []importFile   `json:"files"`

	// plugin is the folder of the plugin whose manifest File is; "": the file has servers. --write adds the plugin.
	plugin string

	// Disabled are the ids of extensions that are disabled in the imported file. --write also disables them in the
	// configuration.
	Disabled []string `json:"disabled,omitempty"`
}

type importServer struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Kind      string   `json:"kind"`
	Runs      string   `json:"runs"`                // "runs COMMAND LINE" or "connects to URL"
	Variables []string `json:"variables,omitempty"` // to be set before the host starts
	Secrets   []string `json:"secrets,omitempty"`   // names of stored secrets that the server is given
}

type importNote struct {
	Server  string `json:"server,omitempty"`
	Dropped bool   `json:"dropped,omitempty"`
	Message string `json:"message"`
}

type importFile struct {
	Path string `json:"path"`
	Text string `json:"text"`

	config   bool   // a configuration file, to which entries can be added
	disabled string // id of the extension to disable before Path is written; "": none

	secrets map[string]string // by name; stored before Path is written
}

func (f importing) run(ctx context.Context, c *console.Console, paths []string) error {
	if err := f.check(); err != nil {
		return err
	}
	f.vault.forget()
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
		return f.writeFiles(ctx, c, all)
	}
	var text strings.Builder
	for _, one := range all {
		for _, file := range one.Files {
			fmt.Fprintf(&text, "# %s\n%s\n", file.Path, file.Text)
		}
	}
	return c.Print(console.Document{Kind: "import", Value: all, Names: names, Text: console.SafeText(text.String())})
}

// check validates the flags.
func (f importing) check() error {
	if f.as != "" && f.as != asExtensions && f.as != asDestinations {
		return console.Usagef("exthost import --help", "--as %q: there is %s and %s", f.as, asExtensions,
			asDestinations)
	}
	if f.lock && (!f.write || f.as == asDestinations || f.to != "") {
		return console.Usagef("exthost import FILE --write --lock",
			"--lock locks extensions that are written beside exthost.lock: it goes with --write, and neither with "+
				"--to nor with --as destinations")
	}
	if f.from == "" {
		return nil
	}
	return console.OneOf("exthost import --help", "--from", f.from, clientconfig.Clients())
}

// read reads one file and renders what would be written.
func (f importing) read(name string) (imported, error) {
	if dir, ok := vendorplugin.Root(name); ok && f.from == "" {
		return f.readPlugin(name, dir)
	}
	r, as, err := f.parse(name)
	if err != nil {
		return imported{}, err
	}
	f.as = as
	out := imported{
		File:    name,
		Client:  string(r.Client),
		Servers: []importServer{},
		Notes:   []importNote{},
		Files:   []importFile{},
	}
	for _, s := range r.Servers {
		runs := "connects to " + s.URL
		if s.URL == "" {
			runs = "runs " + text.ShellLine(append([]string{s.Command}, s.Args...))
		}
		out.Servers = append(out.Servers, importServer{
			ID:        s.ID,
			Name:      s.Name,
			Kind:      s.Kind,
			Runs:      runs,
			Variables: s.Variables,
			Secrets:   slices.Sorted(maps.Keys(s.Secrets)),
		})
	}
	for _, n := range r.Notes {
		out.Notes = append(out.Notes, importNote(n))
	}
	for _, file := range r.Config {
		out.Files = append(out.Files, importFile{Path: configFile(file.Path), Text: string(file.Data), config: true})
	}
	if f.as == asDestinations {
		if len(r.Servers) > 0 {
			out.Files = append(out.Files, importFile{Path: f.target(), Text: string(r.Destinations()), config: true})
		}
		return out, nil
	}
	out.Disabled = r.Disabled()
	for _, file := range r.Extensions() {
		one := importFile{Path: filepath.Join(f.target(), filepath.FromSlash(file.Path)), Text: string(file.Data)}
		id := path.Dir(file.Path)
		if slices.Contains(out.Disabled, id) {
			one.disabled = id
		}
		if n := slices.IndexFunc(r.Servers, func(s clientconfig.Server) bool { return s.ID == id }); n >= 0 {
			one.secrets = r.Servers[n].Secrets
		}
		out.Files = append(out.Files, one)
	}
	return out, nil
}

// parse reads the servers of a file. as is the value of --as, or the default for this kind of file.
func (f importing) parse(name string) (r *clientconfig.Result, as string, err error) {
	data, err := console.ReadFile(name, console.MaxSettings, "exthost import ~/.claude.json")
	if err != nil {
		return nil, "", err
	}
	home, _ := os.UserHomeDir() // without a home directory, servers that refer to it are left out
	o := clientconfig.Options{
		From:    clientconfig.Client(f.from),
		Home:    home,
		Secrets: f.secrets,
		Bridge:  f.as == asDestinations,
		Lock:    f.lock,
	}
	if f.vault != nil && !o.Bridge {
		o.Store = f.vault.free
	}
	as = f.as
	r, err = clientconfig.Read(name, data, o)
	if err == nil && r.Client == clientconfig.Destinations && f.as == "" {
		as, o.Bridge, o.Store = asDestinations, true, nil
		r, err = clientconfig.Read(name, data, o)
	}
	if err != nil {
		return nil, "", &console.Error{
			Code: console.ExitInvalid,
			Text: fmt.Sprintf("%s: %v", name, err),
			Hint: "exthost import --from " + strings.Join(clientconfig.Clients(), "|") + " says whose file it is",
		}
	}
	if f.vault != nil && f.vault.err != nil {
		return nil, "", fmt.Errorf("%s has secrets, and the store cannot be read: %w", name, f.vault.err)
	}
	return r, as, nil
}

// configFile returns the path for a configuration file. If exthost.yaml exists, entries are added to it, because the
// files in config/ are not read then.
func configFile(name string) string {
	if _, err := os.Stat("exthost.yaml"); err == nil {
		return "exthost.yaml"
	}
	return filepath.Join("config", name)
}

func (f importing) target() string {
	switch {
	case f.to != "":
		return f.to
	case f.as == asDestinations:
		return configFile("destinations.yaml")
	}
	return "extensions"
}
