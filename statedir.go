package exthost

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
)

// DefaultStateDir returns the state directory of a host that is opened in the
// working directory without another: the same one under every name of it.
func DefaultStateDir() (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(home, ".local", "state")
	}
	wd, err := os.Getwd()
	if err == nil {
		wd, err = filepath.EvalSymlinks(wd)
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(wd)) // two checkouts of one name are two projects
	return filepath.Join(base, "exthost", filepath.Base(wd)+"-"+hex.EncodeToString(sum[:4])), nil
}
