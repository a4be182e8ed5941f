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
	err   error // the first error of the store

	promised map[string]string // values by name, for all files of the import
}

// openVault returns the store of secrets of the configuration; nil if this program cannot write it.
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

// free reports whether a secret can be stored under name: the name is unused, or its secret has the same value. free
// reserves the name for this value, across all files of the import.
func (v *vault) free(name, value string) bool {
	if v.err != nil {
		return true // the import fails anyway
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

// forget releases the names that free has reserved.
func (v *vault) forget() {
	if v != nil {
		clear(v.promised)
	}
}

// keep stores the secrets of an extension, except those without a value, which the user has to set. undo removes the
// secrets that did not exist before.
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

// references returns the secrets that came with the file, to be granted to its extension. It leaves out secrets without
// a value: the user may have stored them for something else.
func (file *importFile) references() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(file.secrets)) {
		if file.secrets[name] != "" {
			all = append(all, secrets.Scheme+name)
		}
	}
	return all
}
