package relay

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Build identifies the program file that runs: its size and the time of its last change.
func Build() (string, error) {
	if runtime.GOOS == "linux" {
		return buildOf("/proc/self/exe") // also when the file was replaced since
	}
	return Installed()
}

// Installed identifies the file that is in the place of the program now: after an upgrade
// that of the new program, which [Program] starts.
func Installed() (string, error) {
	path, err := Program()
	if err != nil {
		return "", err
	}
	return buildOf(path)
}

// Program returns the path of the program, also when the file was replaced since.
func Program() (string, error) {
	path, err := os.Executable()
	return strings.TrimSuffix(path, " (deleted)"), err
}

func buildOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x-%x", info.Size(), info.ModTime().UnixNano()), nil
}
