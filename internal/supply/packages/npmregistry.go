package packages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/supply/download"
)

// maxMetadata limits a registry's answer about a package, in bytes.
const maxMetadata = 128 << 20

// npmConfig is npm's configuration of registries.
type npmConfig struct {
	registry string
	scopes   map[string]string // registry by "@scope"
	env      []string          // environment for npm

	credentials map[string]string
}

// npmAlone keeps npm from starting programs. For a package with a git URL npm runs git, and npm again to prepare
// the package, before this program sees what was resolved. npm versions without --allow-git do so regardless of
// flags. The file "alone" proves that the script was loaded.
const npmAlone = `const children = require('node:child_process')
for (const name of Object.keys(children)) {
  if (name === 'ChildProcess') children[name].prototype.spawn = refuse
  else if (typeof children[name] === 'function') children[name] = refuse
}
require('node:module').syncBuiltinESMExports()
require('node:fs').writeFileSync(__dirname + '/alone', '')
function refuse(program) {
  throw new Error('npm runs no program here, as for a package that is not of the registry: ' + (program.file || program))
}
`

// withoutPrograms returns an environment in which npm starts no program. It writes a script to dir.
func withoutPrograms(dir string, env []string) ([]string, error) {
	path := filepath.Join(dir, "alone.cjs")
	own, _ := process.Lookup(env)("NODE_OPTIONS")
	env = append(slices.Clip(env), "NODE_OPTIONS="+own+` --require "`+filepath.ToSlash(path)+`"`)
	return env, os.WriteFile(path, []byte(npmAlone), 0o600)
}

// readNPMConfig asks npm for its settings, so that files and variables have npm's precedence. It ignores .npmrc
// files above dir.
func readNPMConfig(ctx context.Context, dir string, env []string) (*npmConfig, error) {
	env, err := withoutPrograms(dir, env)
	if err != nil {
		return nil, err
	}
	out, err := (command{
		dir:  dir,
		argv: []string{"npm", "config", "list", "--json", "--prefix=" + dir},
		env:  env,
	}).run(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(dir, "alone")); err != nil {
		return nil, errors.New("the node of this npm does not follow NODE_OPTIONS, so that a package with a git " +
			"address could run programs; use node of nodejs.org")
	}
	var values map[string]any
	if err := json.Unmarshal(out, &values); err != nil {
		return nil, fmt.Errorf("npm config list: %w", err)
	}
	c := &npmConfig{scopes: map[string]string{}, env: env}
	global, _ := values["globalconfig"].(string)
	user, _ := values["userconfig"].(string)
	if c.credentials, err = npmCredentials(env, global, user); err != nil { // npm config list hides credentials
		return nil, err
	}
	for key, value := range values {
		text, _ := value.(string)
		if scope, ok := strings.CutSuffix(key, ":registry"); ok && strings.HasPrefix(scope, "@") {
			c.scopes[scope] = text
		}
	}
	if c.registry, _ = values["registry"].(string); c.registry == "" {
		return nil, fmt.Errorf("npm has no registry; npm config set registry ADDRESS")
	}
	return c, nil
}

// registryOf returns the registry of a package.
func (c *npmConfig) registryOf(name string) string {
	if scope, _, ok := strings.Cut(name, "/"); ok && c.scopes[scope] != "" {
		return c.scopes[scope]
	}
	return c.registry
}

func (c *npmConfig) origin() origin {
	return origin{append([]string{c.registry}, slices.Sorted(maps.Values(c.scopes))...), c.credentials, c.registryOf}
}

// packument is a registry's answer about a package.
type packument struct {
	Time     map[string]any `json:"time"`
	Versions map[string]struct {
		Dist struct {
			Tarball   string `json:"tarball"`
			Integrity string `json:"integrity"`
		} `json:"dist"`
	} `json:"versions"`
}

func readPackument(ctx context.Context, client *download.Client, registry, name string) (*packument, error) {
	data, err := client.Get(ctx, strings.TrimSuffix(registry, "/")+"/"+strings.ReplaceAll(name, "/", "%2f"),
		"application/json", maxMetadata)
	if err != nil {
		return nil, err
	}
	p := new(packument)
	if err := json.Unmarshal(data, p); err != nil {
		return nil, fmt.Errorf("what the registry says of %s: %w", name, err)
	}
	return p, nil
}

// published returns when a version was published; zero if unknown.
func (p *packument) published(version string) time.Time {
	text, _ := p.Time[version].(string)
	at, _ := time.Parse(time.RFC3339, text) // zero on an error
	return at
}

// sameHost refuses an archive on another host than its registry.
func sameHost(registry, archive string) error {
	r, err := url.Parse(registry)
	if err != nil {
		return err
	}
	a, err := url.Parse(archive)
	if err != nil || !strings.EqualFold(a.Host, r.Host) || a.Scheme != r.Scheme {
		return fmt.Errorf("its archive is not at its registry %s, but at %s", r.Host, hostOf(a))
	}
	return nil
}

func hostOf(u *url.URL) string {
	if u == nil {
		return "what is no address"
	}
	return u.Scheme + "://" + u.Host
}

// width is the number of concurrent requests.
const width = 6

// inParallel calls f for each key, and returns the error of the first key in order that failed.
func inParallel[T any](ctx context.Context, list map[string]T, f func(ctx context.Context, key string, value T) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := slices.Sorted(maps.Keys(list))
	errs, next := make([]error, len(keys)), make(chan int)
	var workers sync.WaitGroup
	for range min(width, len(keys)) {
		workers.Go(func() {
			for n := range next {
				if errs[n] = f(ctx, keys[n], list[keys[n]]); errs[n] != nil {
					cancel()
				}
			}
		})
	}
	for n := range keys {
		next <- n
	}
	close(next)
	workers.Wait()
	return firstCause(errs)
}

// firstCause returns the first error that is not a cancellation, if there is one.
func firstCause(errs []error) (first error) {
	for _, err := range errs {
		switch {
		case err == nil:
		case !errors.Is(err, context.Canceled):
			return err
		case first == nil:
			first = err
		}
	}
	return first
}
