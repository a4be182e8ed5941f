package peer

import (
	"os"
	"path/filepath"
	"strings"
)

// Listening returns the paths of all users' listening unix sockets in this network namespace; none on systems without
// /proc.
func Listening() (paths []string) {
	table, _ := os.ReadFile("/proc/net/unix")
	for line := range strings.Lines(string(table)) {
		// Num RefCount Protocol Flags Type St Inode Path
		const flags, columns = 3, 7
		const accepts = "00010000" // __SO_ACCEPTCON
		listens, rest := false, strings.TrimSuffix(line, "\n")
		for column := range columns {
			var value string
			value, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
			listens = listens || column == flags && value == accepts
		}
		if listens && filepath.IsAbs(rest) { // a path may contain blanks
			paths = append(paths, rest)
		}
	}
	return paths
}
