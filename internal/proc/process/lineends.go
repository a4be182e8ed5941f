package process

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// shells are the programs that take the CR of a line for a part of its last word.
var shells = []string{"sh", "ash", "bash", "dash", "ksh", "zsh"}

// CRLFScript returns the script of a command line that was started in dir if its first line ends in CR LF, which it
// cannot run with: the program itself if it begins with #!, or the script that a shell runs; "" for any other command.
func CRLFScript(argv []string, dir string) string {
	if len(argv) == 0 {
		return ""
	}
	if line := firstLine(argv[0]); strings.HasPrefix(line, "#!") && strings.HasSuffix(line, "\r\n") {
		return argv[0]
	}
	if len(argv) < 2 || !slices.Contains(shells, filepath.Base(argv[0])) {
		return ""
	}
	script := argv[1]
	if !filepath.IsAbs(script) {
		script = filepath.Join(dir, script)
	}
	if strings.HasSuffix(firstLine(script), "\r\n") {
		return script
	}
	return ""
}

// firstLine returns the first line of a regular file with its end, at most 256 bytes; "" if it cannot be read.
func firstLine(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	return line
}
