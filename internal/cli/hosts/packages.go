package hosts

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/internal/supply/lock/locked"
	"github.com/exthost/exthost/internal/supply/lock/lockfile"
	"github.com/exthost/exthost/internal/supply/store"
	"github.com/exthost/exthost/status"
)

// packageDir is where the packages of this user are, and the list of who uses them.
func packageDir() (string, error) {
	state, err := exthost.DefaultStateDir()
	return filepath.Join(filepath.Dir(state), "packages"), err
}

// PackageStore is where the packages of this user are.
func PackageStore() (store.Store, error) {
	u, err := PackageUses()
	return u.Store, err
}

// Packages are those that the lock file of the working directory states.
func Packages(cfg *config.Config) (*locked.Packages, error) {
	u, err := PackageUses()
	return locked.New(cfg.Project.Dir, u), err
}

// lockTools writes the accepted tools into the lock file in dir which states something else of them.
func lockTools(dir string, accepted []status.Pin) error {
	accepted = slices.DeleteFunc(slices.Clone(accepted), func(p status.Pin) bool { return p.Unlocked == "" })
	if len(accepted) == 0 {
		return nil
	}
	f, unlock, err := lockfile.Lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	for _, p := range accepted {
		id, _, _ := strings.Cut(p.Extension, ".")
		if e, ok := f.Extensions[id]; ok && e.Tools != nil { // else somebody has just taken it out
			e.Tools[p.Extension+"/"+p.Name] = p.Unlocked
		}
	}
	return f.Write(dir)
}

// PackageUses are the directories whose lock files may name packages of this user.
func PackageUses() (locked.Uses, error) {
	dir, err := packageDir()
	return locked.Uses{Path: filepath.Join(dir, "directories.json"), Store: store.New(dir, consent.HoldsCode)}, err
}
