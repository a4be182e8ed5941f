package hosts

import (
	"path/filepath"
	"slices"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/supply/store"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/status"
)

// packageDir returns the directory of this user's packages, and of the list of the directories that use them.
func packageDir() (string, error) {
	state, err := exthost.DefaultStateDir()
	return filepath.Join(filepath.Dir(state), "packages"), err
}

// PackageStore returns the store of this user's packages.
func PackageStore() (store.Store, error) {
	u, err := PackageUses()
	return u.Store, err
}

// Packages returns the packages in the lock file of the working directory.
func Packages(cfg *config.Config) (*lock.Packages, error) {
	u, err := PackageUses()
	return lock.NewPackages(cfg.Project.Dir, u), err
}

// lockTools updates the lock file in dir with those accepted tools that differ from it.
func lockTools(dir string, accepted []status.Pin) error {
	accepted = slices.DeleteFunc(slices.Clone(accepted), func(p status.Pin) bool { return p.Unlocked == "" })
	if len(accepted) == 0 {
		return nil
	}
	f, unlock, err := lock.Edit(dir)
	if err != nil {
		return err
	}
	defer unlock()
	for _, p := range accepted {
		id, _ := manifest.OwnerOf(p.Extension)
		if e, ok := f.Extensions[id]; ok && e.Tools != nil { // false if the package was just removed
			e.Tools[p.Extension+"/"+p.Name] = p.Unlocked
		}
	}
	return f.Write(dir)
}

// PackageUses returns the list of directories whose lock files may name packages of this user.
func PackageUses() (lock.Uses, error) {
	dir, err := packageDir()
	return lock.Uses{Path: filepath.Join(dir, "directories.json"), Store: store.New(dir, consent.HoldsCode)}, err
}
