package packages

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/proc/process"
)

// netrcHeader returns the Authorization header for host from the file named by NETRC, or from the user's .netrc; ""
// without an entry. The netrc's default entry is ignored: it would send the password to every host.
func netrcHeader(env []string, host string) (string, error) {
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
	data, _, err := file.ReadRegular(path, maxCredentials, true)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return (&netrc{host: host}).header(string(data)), nil
}

// netrc searches a netrc for the entry of a host.
type netrc struct {
	host           string
	machine        string // of the current entry; "" for the default entry
	user, password string // of the host
}

// header returns the Authorization header from the text of a netrc; "" without an entry.
func (n *netrc) header(text string) string {
	macro := false
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		macro = macro && len(words) > 0 // a macro ends at an empty line
		if macro || len(words) > 0 && strings.HasPrefix(words[0], "#") {
			continue
		}
		macro = n.read(words)
	}
	if n.user == "" && n.password == "" {
		return ""
	}
	return basicAuth(n.user, n.password)
}

// read reads the words of a line, and reports whether a macro begins in it.
func (n *netrc) read(words []string) (macro bool) {
	for i := 0; i < len(words); i += 2 {
		value := ""
		if i+1 < len(words) {
			value = words[i+1]
		}
		ours := strings.EqualFold(n.machine, n.host)
		switch words[i] {
		case "macdef":
			macro = true
		case "machine":
			n.machine = value
		case "default":
			n.machine, i = "", i-1 // the word default has no value
		case "login":
			if ours {
				n.user = value
			}
		case "password":
			if ours {
				n.password = value
			}
		}
	}
	return macro
}
