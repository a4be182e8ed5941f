package clientconfig

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/exthost/exthost/internal/local/clientconfig/known"
)

// Places returns the files of other programs that exist for the project in dir and for the
// user with that home directory, those of the project first.
func Places(dir, home string) (files []string) {
	places := known.Places{
		System: runtime.GOOS,
		Home:   home,
		Env:    os.Getenv,
		Glob: func(pattern string) []string {
			found, _ := filepath.Glob(pattern) // the only error is a bad pattern
			return found
		},
	}
	var names []string
	// whose servers Read does not know
	clients := slices.DeleteFunc(known.All(), func(c known.Client) bool { return c.Joined })
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
