package peer

import (
	"os"
	"path/filepath"
	"strings"
)

// Listening returns the paths of the unix sockets of all users that listen in this network namespace. It
// returns none on systems without /proc.
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
		if listens && filepath.IsAbs(rest) { // a path may have blanks
			paths = append(paths, rest)
		}
	}
	return paths
}
