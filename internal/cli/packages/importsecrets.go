package packages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/secret/secrets"
)

// vault stores the secrets of imported files.
type vault struct {
	ctx   context.Context // of the command
	store hosts.SecretWriter
	err   error // why it could not be asked

	promised map[string]string // values by the names that files of this import store them under
}

// openVault returns the store of secrets of the configuration; nil when this program does not
// write it.
func openVault(ctx context.Context, c *console.Console) (*vault, error) {
	cfg, _, err := hosts.Load(c)
	if err != nil {
		return nil, err
	}
	store, writable := hosts.Secrets(cfg).(hosts.SecretWriter)
	if !writable {
		return nil, nil
	}
	return &vault{ctx: ctx, store: store, promised: make(map[string]string)}, nil
}

// free reports whether a secret can be stored under a name: none is, or the same. One that can has
// the name, which no other secret of the import gets, of whichever file.
func (v *vault) free(name, value string) bool {
	if v.err != nil {
		return true // and nothing is stored
	}
	if other, taken := v.promised[name]; taken && other != value {
		return false
	}
	now, err := v.store.Lookup(v.ctx, name)
	missing, ok := errors.AsType[*secrets.Error](err)
	switch {
	case ok && missing.Missing:
	case err != nil:
		v.err = err
		return true
	case now != value:
		return false
	}
	v.promised[name] = value
	return true
}

// forget gives the names up that files were shown with.
func (v *vault) forget() {
	if v != nil {
		clear(v.promised)
	}
}

// keep stores the secrets that an extension is given. Those without a value are left to the user. Undo
// removes those that were not stored before.
func (v *vault) keep(values map[string]string) (undo func() error, err error) {
	var fresh []string
	undo = func() (err error) {
		for _, name := range fresh {
			err = errors.Join(err, v.store.Remove(name))
		}
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if values[name] == "" {
			continue
		}
		_, err := v.store.Lookup(v.ctx, name)
		if err := v.store.Set(name, values[name]); err != nil {
			return undo, errors.Join(fmt.Errorf("the secret %s is not stored: %w", name, err), undo())
		}
		if missing, ok := errors.AsType[*secrets.Error](err); ok && missing.Missing {
			fresh = append(fresh, name)
		}
	}
	return undo, nil
}

// references are those of the file to secrets that came with it, for a grant. Others the user has
// stored for something else, perhaps.
func (file *importFile) references() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(file.secrets)) {
		if file.secrets[name] != "" {
			all = append(all, secrets.Scheme+name)
		}
	}
	return all
}
