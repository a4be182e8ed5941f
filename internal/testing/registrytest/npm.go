// Package registrytest imitates package registries on this machine, for tests.
package registrytest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Unknown is the age of a release for which the registry states no time of publication.
const Unknown = time.Duration(-1)

// Release is one version of an npm package.
type Release struct {
	Name, Version string
	JSON          map[string]any    // further members of package.json
	Files         map[string]string // by path
	Age           time.Duration     // time since publication; default a year
	Archive       []byte            // replaces the archive of Files
	Served        []byte            // what is served, if not the archive that the hash is of
	Integrity     *string           // replaces the archive's integrity
	URL           string            // replaces the archive's URL
	Redirect      string            // where the archive's address redirects to
}

// NPM is an npm registry.
type NPM struct {
	*httptest.Server
	Authorization string // header that requests need; "": none; set before the first request
	Below         string // the path that all addresses begin with, such as /t0ken; "": none

	mu       sync.Mutex
	releases map[string][]Release
}

// NewNPM starts a registry that ends with the test.
func NewNPM(t testing.TB, releases ...Release) *NPM {
	r := StartNPM(releases...)
	t.Cleanup(r.Close)
	return r
}

// StartNPM starts a registry. The caller closes it.
func StartNPM(releases ...Release) *NPM {
	r := &NPM{releases: map[string][]Release{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	for _, one := range releases {
		r.Publish(one)
	}
	return r
}

// ReleaseOf returns the release in a folder with a package.json.
func ReleaseOf(dir string) (r Release, err error) {
	r.Files = map[string]string{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		r.Files[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(r.Files["package.json"]), &r.JSON); err != nil {
		return r, err
	}
	r.Name, _ = r.JSON["name"].(string)
	r.Version, _ = r.JSON["version"].(string)
	return r, nil
}

// Environ returns the variables that make npm use the registry.
func (r *NPM) Environ(dir string) map[string]string {
	return map[string]string{
		"npm_config_registry":      r.URL,
		"npm_config_cache":         dir + "/npm-cache",
		"npm_config_userconfig":    dir + "/npmrc",
		"npm_config_globalconfig":  dir + "/npmrc-global",
		"npm_config_fetch_retries": "0",
	}
}

// Publish adds a version, or replaces an existing one.
func (r *NPM) Publish(release Release) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.DeleteFunc(r.releases[release.Name], func(o Release) bool { return o.Version == release.Version })
	r.releases[release.Name] = append(list, release)
}

// Move changes Below while the registry runs.
func (r *NPM) Move(below string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Below = below
}

func (r *NPM) serve(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Authorization != "" && req.Header.Get("Authorization") != r.Authorization {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	at, below := strings.CutPrefix(req.URL.EscapedPath(), r.Below+"/")
	if !below {
		http.NotFound(w, req)
		return
	}
	path, err := url.PathUnescape(at)
	name, file, archive := strings.Cut(path, "/-/")
	list := r.releases[name]
	if err != nil || len(list) == 0 {
		http.NotFound(w, req)
		return
	}
	if !archive {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(r.document(name, list)) // the client went away
		return
	}
	for _, one := range list {
		switch {
		case one.Version+".tgz" != file:
		case one.Redirect != "":
			http.Redirect(w, req, one.Redirect, http.StatusFound)
			return
		case one.Served != nil:
			_, _ = w.Write(one.Served)
			return
		default:
			_, _ = w.Write(one.archive())
			return
		}
	}
	http.NotFound(w, req)
}

func (r *NPM) document(name string, list []Release) map[string]any {
	versions, times := map[string]any{}, map[string]any{}
	latest := ""
	for _, one := range list {
		v := one.packageJSON()
		dist := map[string]any{
			"tarball":   r.URL + r.Below + "/" + name + "/-/" + one.Version + ".tgz",
			"integrity": one.Hash(),
		}
		if one.Integrity != nil {
			if dist["integrity"] = *one.Integrity; *one.Integrity == "" {
				delete(dist, "integrity")
			}
		}
		if one.URL != "" {
			dist["tarball"] = one.URL
		}
		v["dist"] = dist
		if strings.Contains(fmt.Sprint(v["scripts"]), "install") {
			v["hasInstallScript"] = true
		}
		versions[one.Version], latest = v, one.Version
		age := one.Age
		if age == 0 {
			age = 365 * 24 * time.Hour
		}
		if age == Unknown {
			continue
		}
		times[one.Version] = time.Now().Add(-age).UTC().Format(time.RFC3339)
	}
	return map[string]any{
		"name":      name,
		"versions":  versions,
		"dist-tags": map[string]string{"latest": latest},
		"time":      times,
	}
}

func (one Release) packageJSON() map[string]any {
	v := map[string]any{"name": one.Name, "version": one.Version}
	maps.Copy(v, one.JSON)
	return v
}

// Hash returns the hash of the archive in the registry's notation.
func (one Release) Hash() string {
	sum := sha512.Sum512(one.archive())
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

func (one Release) archive() []byte {
	if one.Archive != nil {
		return one.Archive
	}
	entries := []Entry{}
	if _, own := one.Files["package.json"]; !own {
		data, _ := json.Marshal(one.packageJSON()) // of strings
		entries = append(entries, Entry{Name: "package/package.json", Body: string(data)})
	}
	for _, name := range slices.Sorted(maps.Keys(one.Files)) {
		entries = append(entries, Entry{Name: "package/" + name, Body: one.Files[name]})
	}
	return TarGz(entries...)
}

// Entry is one entry of an archive.
type Entry struct {
	Name, Body, Link string
	Type             byte // type flag of archive/tar; default a file
	Size             int64
}

// TarGz returns an archive with the entries.
func TarGz(entries ...Entry) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: e.Name, Linkname: e.Link, Mode: 0o644, Size: int64(len(e.Body)), Typeflag: e.Type}
		if e.Type == 0 {
			h.Typeflag = tar.TypeReg
		}
		if e.Size > 0 {
			h.Size = e.Size
		}
		if err := w.WriteHeader(h); err != nil {
			panic(fmt.Sprintf("%s: %v", e.Name, err))
		}
		if e.Size > 0 {
			zeros := make([]byte, 1<<20)
			for left := e.Size; left > 0; left -= int64(len(zeros)) {
				_, _ = w.Write(zeros[:min(left, int64(len(zeros)))])
			}
			continue
		}
		_, _ = w.Write([]byte(e.Body))
	}
	_, _ = w.Close(), z.Close() // writes to memory
	return out.Bytes()
}
