package connect

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/local/clientsettings"
)

// listed describes one settings file of a client on this machine.
type listed struct {
	Client      string       `json:"client"`
	Title       string       `json:"title"`
	Scope       string       `json:"scope"`
	File        string       `json:"file"`
	Exists      bool         `json:"exists"`
	Error       string       `json:"error,omitempty"` // why the file cannot be read
	Connections []connection `json:"connections"`
}

// connection is a server in the settings that starts this program.
type connection struct {
	Name    string `json:"name"`
	Line    int    `json:"line"`
	Dir     string `json:"dir"` // "": the client's working directory
	As      string `json:"as,omitempty"`
	Toolset string `json:"toolset,omitempty"`
	Problem string `json:"problem,omitempty"` // why the server cannot start
}

// listing prints the clients whose settings are on this machine, and their connections.
func (r *connecting) listing(places clientsettings.Places) error {
	all := []listed{}
	var names, others []string
	for _, client := range clientsettings.All() {
		found := slices.DeleteFunc(r.settingsOf(&client, places), func(l listed) bool {
			shared := slices.ContainsFunc(all, func(other listed) bool { return other.File == l.File })
			return shared // two editions of a client read the same project file
		})
		if len(found) == 0 {
			others = append(others, client.ID)
			continue
		}
		all, names = append(all, found...), append(names, client.ID)
	}
	rows := [][]string{{"CLIENT", "SETTINGS", "SERVER", "DIRECTORY"}}
	for _, one := range all {
		rows = append(rows, one.rows()...)
	}
	if len(all) == 0 {
		rows = nil
	}
	if err := r.console.Print(console.Document{
		Kind:  "connections",
		Value: all,
		Names: console.OrEmpty(names),
		Rows:  rows,
		Wrap:  true,
		Text:  "no settings of a client were found",
	}); err != nil {
		return err
	}
	if r.console.Output == "table" {
		text := "next: exthost connect CLIENT connects one to this directory"
		if len(others) > 0 {
			text += "; not found here: " + strings.Join(others, ", ")
		}
		r.console.Tell(text)
	}
	return nil
}

// settingsOf returns the settings files of a client that exist. It includes the user's file even if that does not exist
// yet, if the client is installed.
func (r *connecting) settingsOf(client *clientsettings.Client, places clientsettings.Places) (found []listed) {
	user := userFile(client, places)
	dir := filepath.Dir(user)
	_, err := os.Lstat(user)
	_, dirErr := os.Stat(dir)
	if err == nil || dirErr == nil && !sameDir(dir, places.Home) {
		found = append(found, look(client, ofUser, user))
	}
	if project := client.Project(r.dir); project != "" {
		if _, err := os.Lstat(project); err == nil && !file.Same(project, user) {
			found = append(found, look(client, ofProject, project))
		}
	}
	return found
}

// look reads one file.
func look(client *clientsettings.Client, scope, path string) listed {
	one := listed{Client: client.ID, Title: client.Title, Scope: scope, File: path, Connections: []connection{}}
	s := &settings{client: client, scope: scope, path: path}
	err := s.read()
	one.Exists = s.exists
	if err != nil {
		one.Error = err.Error()
		return one
	}
	servers, err := s.servers()
	if err != nil {
		one.Error = err.Error()
	}
	for _, e := range servers {
		if dir, ours := serves(e.Argv); ours {
			one.Connections = append(one.Connections,
				connection{
					Name:    e.Name,
					Line:    e.Line,
					Dir:     dir,
					As:      clientsettings.Flag(e.Argv, "--as"),
					Toolset: clientsettings.Flag(e.Argv, "--toolset"),
					Problem: problem(e.Argv[0], dir),
				})
		}
	}
	return one
}

// problem returns why a command line cannot start; "" if it can.
func problem(program, dir string) string {
	if _, err := os.Stat(program); filepath.IsAbs(program) && err != nil {
		return "the program is gone: " + program
	}
	if _, err := os.Stat(dir); dir != "" && err != nil {
		return "the directory is gone"
	}
	return ""
}

func (l *listed) rows() (rows [][]string) {
	file := console.Tilde(l.File)
	if l.Scope == ofProject {
		file = console.NearbyPath(l.File)
	}
	switch {
	case l.Error != "":
		_, why, _ := strings.Cut(strings.TrimSuffix(l.Error, "; it was left as it is"), ":")
		return [][]string{{l.Title, file, "-", "error: " + strings.TrimSpace(why)}}
	case len(l.Connections) == 0:
		return [][]string{{l.Title, file, "-", "not connected"}}
	}
	for _, c := range l.Connections {
		dir := console.Tilde(c.Dir)
		if c.Dir == "" {
			dir = "where the client runs"
		}
		details := slices.DeleteFunc([]string{described("as", c.As), described("toolset", c.Toolset)},
			func(s string) bool { return s == "" })
		if len(details) > 0 {
			dir += fmt.Sprintf(" (%s)", strings.Join(details, ", "))
		}
		if c.Problem != "" {
			dir = "error: " + dir + ": " + c.Problem
		}
		rows = append(rows, []string{l.Title, file, c.Name, dir})
	}
	return rows
}

func described(what, name string) string {
	if name == "" {
		return ""
	}
	return what + " " + name
}
