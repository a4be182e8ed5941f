package relay

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Build identifies the running program file by size and modification time.
func Build() (string, error) {
	if runtime.GOOS == "linux" {
		return buildOf("/proc/self/exe") // works even if the file was replaced
	}
	return installed()
}

// installed identifies the file at the program's path. After an upgrade, this is the new program, which [Program]
// would start.
func installed() (string, error) {
	path, err := Program()
	if err != nil {
		return "", err
	}
	return buildOf(path)
}

// Program returns the program's path, even if the file was replaced.
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
