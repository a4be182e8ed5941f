package clientconfig

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/exthost/exthost/internal/local/clientsettings"
)

// Places returns the existing client configuration files of the project in dir and of the user with this home
// directory, project files first.
func Places(dir, home string) (files []string) {
	places := clientsettings.Places{
		System: runtime.GOOS,
		Home:   home,
		Env:    os.Getenv,
		Glob: func(pattern string) []string {
			found, _ := filepath.Glob(pattern) // fails only for a bad pattern
			return found
		},
	}
	var names []string
	// Read does not support these clients' servers
	clients := slices.DeleteFunc(clientsettings.All(), func(c clientsettings.Client) bool { return c.Joined })
	for _, c := range clients {
		if project := c.Project(dir); project != "" {
			names = append(names, project)
		}
	}
	for _, c := range clients {
		if home != "" {
			names = append(names, c.User(places)...)
		}
	}
	seen := make(map[string]bool)
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && !seen[name] {
			seen[name] = true
			files = append(files, name)
		}
	}
	return files
}
