package packages

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/supply/download"
	"github.com/exthost/exthost/internal/supply/lock"
)

// npmFlags make npm only resolve, regardless of its configuration. Older versions ignore the --allow flags; for
// them [npmAlone] and the checks of parsePackageLock apply.
var npmFlags = []string{"--package-lock-only", "--ignore-scripts", "--allow-git=none", "--allow-remote=none",
	"--allow-file=none", "--allow-directory=none", "--omit=dev", "--install-strategy=hoisted", "--lockfile-version=3",
	"--package-lock=true",
	"--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--workspaces=false", "--global=false",
	"--location=project"}

func (i *Installer) resolveNPM(ctx context.Context, s Source) (r resolved, err error) {
	dir, err := os.MkdirTemp("", "exthost-npm-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	version := s.Version
	if version == "" {
		version = "latest"
	}
	asked, err := json.Marshal(map[string]any{
		"name":         "exthost-add",
		"version":      "0.0.0",
		"private":      true,
		"dependencies": map[string]string{s.Name: version},
	})
	if err != nil {
		return r, err
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), asked, 0o600); err != nil {
		return r, err
	}
	return i.resolveWithNPM(ctx, dir, s.Name)
}

// resolveWithNPM lets npm resolve the package.json in dir. The part named main comes first.
func (i *Installer) resolveWithNPM(ctx context.Context, dir, main string) (r resolved, err error) {
	config, err := readNPMConfig(ctx, dir, i.environ())
	if err != nil {
		return r, err
	}
	r.from = config.origin()
	client, err := r.from.client()
	if err != nil {
		return r, err
	}
	defer client.Close()
	argv := append([]string{"npm", "install"}, npmFlags...)
	if i.MinAge > 0 && len(i.AgeOf) == 0 { // --before makes npm prefer the newest version that is old enough
		argv = append(argv, "--before="+time.Now().Add(-i.MinAge).UTC().Format(time.RFC3339))
	}
	if _, err := (command{dir: dir, argv: argv, env: config.env, hide: r.from.paths()}).run(ctx); err != nil {
		if f, ok := errors.AsType[*failedCommand](err); ok &&
			(strings.Contains(f.text, "with a date before") || strings.Contains(f.text, "ENOVERSIONS")) {
			return r, fmt.Errorf("no version is %s old, or a package that it needs has none; --min-release-age "+
				"NAME=0 takes younger ones of that package: %s", i.MinAge, f.text)
		}
		return r, err
	}
	data, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return r, fmt.Errorf("npm wrote no package-lock.json: %w", err)
	}
	entries, err := parsePackageLock(data)
	if err != nil {
		return r, err
	}
	if r.parts, err = i.locate(ctx, client, config, entries); err != nil {
		return r, err
	}
	if main == "" {
		return r, nil
	}
	n := slices.IndexFunc(r.parts, func(p lock.Part) bool { return p.Path == "node_modules/"+main })
	if n < 0 || r.parts[n].Name != main {
		return r, fmt.Errorf("npm resolved it to something else than %s", main)
	}
	first := r.parts[n]
	r.version, r.parts = first.Version, append([]lock.Part{first}, slices.Delete(r.parts, n, n+1)...)
	return r, nil
}

// locate asks the registry for each entry's archive and publication time.
func (i *Installer) locate(ctx context.Context, client *download.Client, config *npmConfig, entries []npmEntry,
) ([]lock.Part, error) {
	byName := map[string][]int{}
	for n, e := range entries {
		byName[e.name] = append(byName[e.name], n)
	}
	parts := make([]lock.Part, len(entries))
	return parts, inParallel(ctx, byName, func(ctx context.Context, name string, at []int) error {
		registry := config.registryOf(name)
		doc, err := readPackument(ctx, client, registry, name)
		if err != nil {
			return err
		}
		for _, n := range at {
			e := entries[n]
			if err := sameHost(registry, cmp.Or(e.Resolved, registry)); err != nil {
				return fmt.Errorf("%s %s: %w", name, e.Version, err)
			}
			v, ok := doc.Versions[e.Version]
			if !ok {
				return fmt.Errorf("the registry has no %s %s", name, e.Version)
			}
			hash, err := download.Strongest(e.Integrity)
			if err != nil {
				return fmt.Errorf("%s %s: %w", name, e.Version, err)
			}
			if now, err := download.Strongest(v.Dist.Integrity); err != nil || now != hash {
				return fmt.Errorf("%s %s: npm resolved it to %s, and the registry states %q", name, e.Version, hash,
					v.Dist.Integrity)
			}
			if err := sameHost(registry, v.Dist.Tarball); err != nil {
				return fmt.Errorf("%s %s: %w", name, e.Version, err)
			}
			if err := i.checkAge(name, e.Version, doc.published(e.Version)); err != nil {
				return err
			}
			at, err := lockedURL(registry, v.Dist.Tarball)
			if err != nil {
				return fmt.Errorf("%s %s: %w", name, e.Version, err)
			}
			parts[n] = lock.Part{Name: name, Version: e.Version, URL: at, Integrity: hash, Path: e.path}
		}
		return nil
	})
}
