package credentials

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"github.com/exthost/exthost/internal/file/regular"
	"github.com/exthost/exthost/internal/proc/process"
)

// Netrc returns the Authorization header for host from the file named by NETRC, or from the user's .netrc; ""
// without an entry. The netrc's default entry is ignored: it would send the password to every host.
func Netrc(env []string, host string) (string, error) {
	look := process.Lookup(env)
	if host == "" {
		return "", nil
	}
	path, ok := look("NETRC")
	if !ok {
		name, home := ".netrc", "HOME"
		if goruntime.GOOS == "windows" {
			name, home = "_netrc", "USERPROFILE"
		}
		dir, _ := look(home)
		if path = filepath.Join(dir, name); dir == "" {
			return "", nil
		}
	}
	data, _, err := regular.Read(path, maxFile, true)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return machine(string(data), host), nil
}

// machine returns the Authorization header for host from the text of a netrc.
func machine(text, host string) string {
	var of, user, password string
	macro := false
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if macro = macro && len(words) > 0; macro || len(words) > 0 && strings.HasPrefix(words[0], "#") {
			continue // a macro ends at an empty line
		}
		for n := 0; n < len(words); n += 2 {
			next := ""
			if n+1 < len(words) {
				next = words[n+1]
			}
			switch {
			case words[n] == "macdef":
				macro = true
			case words[n] == "machine":
				of = next
			case words[n] == "default":
				of, n = "", n-1
			case words[n] == "login" && strings.EqualFold(of, host):
				user = next
			case words[n] == "password" && strings.EqualFold(of, host):
				password = next
			}
		}
	}
	if user == "" && password == "" {
		return ""
	}
	return basic(user, password)
}
