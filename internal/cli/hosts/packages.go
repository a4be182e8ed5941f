package hosts

import (
	"path/filepath"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/locked"
	"github.com/exthost/exthost/internal/store"
)

// packageDir is where the packages of this user are, and the list of who uses them.
func packageDir() (string, error) {
	state, err := exthost.DefaultStateDir()
	return filepath.Join(filepath.Dir(state), "packages"), err
}

// PackageStore is where the packages of this user are.
func PackageStore() (store.Store, error) {
	dir, err := packageDir()
	return store.New(dir), err
}

// Packages are those that the lock file of the working directory states.
func Packages(cfg *config.Config) (*locked.Packages, error) {
	s, err := PackageStore()
	return locked.New(cfg.Project.Dir, s), err
}

// PackageUses are the directories whose lock files may name packages of this user.
func PackageUses() (locked.Uses, error) {
	dir, err := packageDir()
	return locked.Uses{Path: filepath.Join(dir, "directories.json"), Store: store.New(dir)}, err
}
