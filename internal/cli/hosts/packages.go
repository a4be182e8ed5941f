package hosts

import (
	"path/filepath"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/locked"
	"github.com/exthost/exthost/internal/store"
)

// PackageStore is where the packages of this user are.
func PackageStore() (store.Store, error) {
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return store.Store{}, err
	}
	return store.New(filepath.Join(filepath.Dir(state), "packages")), nil
}

// Packages are those that the lock file of the working directory states.
func Packages(cfg *config.Config) (locked.Packages, error) {
	s, err := PackageStore()
	return locked.Packages{Dir: cfg.Project.Dir, Store: s}, err
}

// PackageUses are the directories whose lock files may name packages of this user.
func PackageUses() (locked.Uses, error) {
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return locked.Uses{}, err
	}
	dir := filepath.Join(filepath.Dir(state), "packages")
	return locked.Uses{Path: filepath.Join(dir, "directories.json"), Store: store.New(dir)}, nil
}
