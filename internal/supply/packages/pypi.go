package packages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/supply/download"
	"github.com/exthost/exthost/internal/supply/lock"
)

// maxRounds limits how often pip resolves again without the versions that are too young.
const maxRounds = 5

// resolvePyPI lets pip resolve the source, repeatedly if versions are too young.
func (i *Installer) resolvePyPI(ctx context.Context, s Source) (r resolved, err error) {
	dir, err := os.MkdirTemp("", "exthost-pypi-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	config, err := readPipConfig(ctx, dir, i.environ())
	if err != nil {
		return r, err
	}
	client, err := config.origin.client()
	if err != nil {
		return r, err
	}
	defer client.Close()
	r, err = i.resolveWithPip(ctx, client, config, dir, s)
	r.from = config.origin
	return r, err
}

func (i *Installer) resolveWithPip(ctx context.Context, client *download.Client, config *pipConfig, dir string,
	s Source,
) (resolved, error) {
	var young error
	var without []string // constraints that exclude young versions
	for range maxRounds {
		wheels, err := config.resolve(ctx, dir, s, without)
		switch {
		case err != nil && young != nil:
			return resolved{}, young
		case err != nil:
			return resolved{}, config.explain(ctx, client, s, err)
		}
		byName := map[string]pipWheel{}
		for _, w := range wheels {
			byName[NormalName(w.Metadata.Name)] = w
		}
		parts, fresh := map[string]lock.Part{}, map[string][]string{}
		results := make(chan located, len(byName))
		err = inParallel(ctx, byName, func(ctx context.Context, name string, w pipWheel) error {
			one, err := i.locateWheel(ctx, client, config, name, w)
			results <- one
			return err
		})
		close(results)
		if err != nil {
			return resolved{}, err
		}
		young = nil
		for one := range results {
			if parts[one.name] = one.part; one.young != nil {
				young, fresh[one.name] = one.young, append(one.others, one.part.Version)
			}
		}
		if young == nil {
			return inOrder(parts, NormalName(s.Name))
		}
		for name, versions := range fresh {
			for _, v := range versions {
				without = append(without, name+"!="+v)
			}
		}
	}
	return resolved{}, young
}

// located is a wheel found in the index.
type located struct {
	name   string
	part   lock.Part
	young  error    // set if it is too young
	others []string // versions that are younger still
}

// locateWheel looks up in the index a wheel that pip chose.
func (i *Installer) locateWheel(ctx context.Context, client *download.Client, config *pipConfig, name string,
	w pipWheel,
) (located, error) {
	one := located{name: name}
	page, err := config.page(ctx, client, name)
	if err != nil {
		return one, err
	}
	var published time.Time
	if one.part, published, err = page.find(config.index, name, w); err != nil {
		return one, err
	}
	if one.young = i.checkAge(name, one.part.Version, published); one.young != nil {
		one.others = page.after(published)
	}
	return one, nil
}

// inOrder sorts the parts by name, main first.
func inOrder(parts map[string]lock.Part, main string) (r resolved, err error) {
	first, ok := parts[main]
	if !ok {
		return r, fmt.Errorf("pip resolved it to something else than %s", main)
	}
	delete(parts, main)
	r.version, r.parts = first.Version, []lock.Part{first}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		r.parts = append(r.parts, parts[name])
	}
	return r, nil
}

// pipWheel is a wheel in pip's report.
type pipWheel struct {
	Download struct {
		URL     string `json:"url"`
		Archive struct {
			Hashes map[string]string `json:"hashes"`
		} `json:"archive_info"`
	} `json:"download_info"`
	Metadata struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"metadata"`
}

// pipAlone runs pip and lets it start only keyring and musl's loader, which tells the libc version. To learn the
// dependencies of an sdist, pip would build it and run its code; --only-binary prevents that only for sdists in
// the index, not for a dependency on a URL.
const pipAlone = `import os, runpy, sys
def audit(event, args):
    if event == "subprocess.Popen" and not os.path.basename(str(args[0])).startswith(("keyring", "ld-musl-")):
        raise PermissionError(f"pip runs no program here, as for a package that is no wheel of the index: {args[0]}")
sys.addaudithook(audit)
runpy.run_module("pip", run_name="__main__", alter_sys=True)
`

// resolve lets pip report the wheels that it would install. It runs none of their code.
func (c *pipConfig) resolve(ctx context.Context, dir string, s Source, without []string) ([]pipWheel, error) {
	report, constraints := filepath.Join(dir, "report.json"), filepath.Join(dir, "constraints.txt")
	if err := os.WriteFile(constraints, []byte(strings.Join(without, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	wanted := s.Name
	if s.Version != "" {
		wanted += "==" + s.Version
	}
	argv := []string{"python3", "-c", pipAlone, "install", "--dry-run", "--ignore-installed", "--only-binary", ":all:",
		"--no-input", "--disable-pip-version-check", "--quiet",
		"--constraint", constraints, "--report", report, "--", wanted}
	if _, err := (command{dir: dir, argv: argv, env: c.env, hide: c.origin.paths()}).run(ctx); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(report)
	if err != nil {
		return nil, fmt.Errorf("pip wrote no report; use pip 22.2 or newer: %w", err)
	}
	var out struct {
		Install []pipWheel `json:"install"`
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("pip's report: %w", err)
	}
	if len(out.Install) > maxParts {
		return nil, fmt.Errorf("it needs over %d packages", maxParts)
	}
	return out.Install, nil
}

// explain improves pip's error if the index denies access or has no wheel.
func (c *pipConfig) explain(ctx context.Context, client *download.Client, s Source, failed error) error {
	page, err := c.page(ctx, client, NormalName(s.Name))
	if status, ok := errors.AsType[*download.Status](err); ok && status.Denied() {
		return err
	}
	if err != nil || len(page.Files) == 0 {
		return failed
	}
	if !slices.ContainsFunc(page.Files, func(f indexFile) bool { return path.Ext(f.Filename) == ".whl" }) {
		return errors.New("it has no wheel, and to build one would run its code")
	}
	return failed
}

// indexPage is the index's answer about a package (PEP 691, PEP 700).
type indexPage struct {
	Files []indexFile `json:"files"`
	at    *url.URL
}

type indexFile struct {
	Filename string            `json:"filename"`
	URL      string            `json:"url"`
	Hashes   map[string]string `json:"hashes"`
	Uploaded string            `json:"upload-time"`
}

func (c *pipConfig) page(ctx context.Context, client *download.Client, name string) (*indexPage, error) {
	at, err := url.Parse(strings.TrimSuffix(c.index, "/") + "/" + name + "/")
	if err != nil {
		return nil, err
	}
	data, err := client.Get(ctx, at.String(), "application/vnd.pypi.simple.v1+json", maxMetadata)
	if err != nil {
		return nil, err
	}
	page := &indexPage{at: at}
	if err := json.Unmarshal(data, page); err != nil {
		return nil, fmt.Errorf("the index does not answer in JSON about %s (PEP 691): %w", name, err)
	}
	return page, nil
}

// find returns the part for the wheel that pip chose, matched by SHA-256.
func (p *indexPage) find(index, name string, w pipWheel) (part lock.Part, published time.Time, err error) {
	for _, f := range p.Files {
		sum := f.Hashes["sha256"]
		if sum == "" || sum != w.Download.Archive.Hashes["sha256"] {
			continue
		}
		named, version := wheelName(f.Filename)
		if named != name || version != normalVersion(w.Metadata.Version) {
			return part, published, fmt.Errorf("the index has %q in place of a wheel of %s %s", f.Filename, name,
				w.Metadata.Version)
		}
		at, err := p.at.Parse(f.URL)
		if err != nil {
			return part, published, err
		}
		part = lock.Part{Name: name, Version: w.Metadata.Version, Path: libFolder + "/" + name}
		if part.URL, err = lockedURL(index, at.String()); err != nil {
			return part, published, fmt.Errorf("%s %s: %w", name, part.Version, err)
		}
		if part.Integrity, err = download.SHA256(sum); err != nil {
			return part, published, fmt.Errorf("%s %s: %w", name, part.Version, err)
		}
		published, _ = time.Parse(time.RFC3339, f.Uploaded) // zero on an error
		return part, published, nil
	}
	return part, published, fmt.Errorf("the index states no SHA-256 of the file %s that pip chose for %s %s",
		path.Base(w.Download.URL), name, w.Metadata.Version)
}

// after returns the versions published after a time.
func (p *indexPage) after(published time.Time) (versions []string) {
	for _, f := range p.Files {
		if at, err := time.Parse(time.RFC3339, f.Uploaded); err == nil && at.After(published) {
			if _, version := wheelName(f.Filename); version != "" && !slices.Contains(versions, version) {
				versions = append(versions, version)
			}
		}
	}
	return versions
}
