package registrytest

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Wheel is one version of a Python package.
type Wheel struct {
	Name, Version string
	Requires      []string
	Scripts       string            // content of [console_scripts]
	Metadata      string            // replaces the default metadata
	Files         map[string]string // by path
	Age           time.Duration     // time since publication; default a year
	Served        []byte            // what is served, if not the archive that the hash is of
	Filename      string            // replaces the name of a wheel for every machine
	NoHash        bool
	URL           string // replaces the URL of the file
	Archive       []byte // replaces the archive of Files
}

// PyPI is an index of Python packages.
type PyPI struct {
	*httptest.Server
	Authorization string // header that requests need; "": none; set before the first request
	Below         string // the path that all addresses begin with, such as /t0ken; "": none

	mu     sync.Mutex
	wheels []Wheel
}

// NewPyPI starts an index that ends with the test.
func NewPyPI(t testing.TB, wheels ...Wheel) *PyPI {
	p := StartPyPI(wheels...)
	t.Cleanup(p.Close)
	return p
}

// StartPyPI starts an index. The caller closes it.
func StartPyPI(wheels ...Wheel) *PyPI {
	p := &PyPI{wheels: wheels}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	return p
}

// Environ returns the variables that make pip use the index, and no settings of the user who runs the test.
func (p *PyPI) Environ() map[string]string {
	return map[string]string{
		"PIP_INDEX_URL":       p.URL + "/simple",
		"PIP_CONFIG_FILE":     os.DevNull,
		"PIP_NO_CACHE_DIR":    "1",
		"PIP_RETRIES":         "0",
		"PIP_FIND_LINKS":      "",
		"PIP_EXTRA_INDEX_URL": "",
		"PIP_PROXY":           "",
	}
}

// Move changes Below while the index runs.
func (p *PyPI) Move(below string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Below = below
}

// Publish adds a version, or replaces an existing one.
func (p *PyPI) Publish(w Wheel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wheels = append(slices.DeleteFunc(p.wheels,
		func(o Wheel) bool { return o.Name == w.Name && o.Version == w.Version }), w)
}

func (p *PyPI) serve(w http.ResponseWriter, req *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Authorization != "" && req.Header.Get("Authorization") != p.Authorization {
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	at, below := strings.CutPrefix(req.URL.Path, p.Below)
	if !below {
		http.NotFound(w, req)
		return
	}
	if file, ok := strings.CutPrefix(at, "/files/"); ok {
		for _, one := range p.wheels {
			if one.filename() == file {
				data := one.archive()
				if one.Served != nil {
					data = one.Served
				}
				_, _ = w.Write(data) // the client went away
				return
			}
		}
	}
	name := strings.Trim(strings.TrimPrefix(at, "/simple/"), "/")
	var files []map[string]any
	for _, one := range p.wheels {
		if strings.ReplaceAll(one.Name, "_", "-") == name {
			files = append(files, p.file(one))
		}
	}
	if files == nil {
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"meta":  map[string]string{"api-version": "1.1"},
		"name":  name,
		"files": files,
	})
}

func (p *PyPI) file(one Wheel) map[string]any {
	f := map[string]any{
		"filename": one.filename(),
		"url":      "../../files/" + one.filename(),
		"hashes":   map[string]string{"sha256": one.Hash()},
	}
	if one.NoHash {
		f["hashes"] = map[string]string{}
	}
	if one.URL != "" {
		f["url"] = one.URL
	}
	age := one.Age
	if age == 0 {
		age = 365 * 24 * time.Hour
	}
	if age != Unknown {
		f["upload-time"] = time.Now().Add(-age).UTC().Format(time.RFC3339Nano)
	}
	return f
}

// Hash is the SHA-256 of the wheel in hex.
func (one Wheel) Hash() string {
	sum := sha256.Sum256(one.archive())
	return hex.EncodeToString(sum[:])
}

func (one Wheel) base() string {
	return strings.ReplaceAll(one.Name, "-", "_") + "-" + one.Version
}

func (one Wheel) filename() string {
	if one.Filename != "" {
		return one.Filename
	}
	return one.base() + "-py3-none-any.whl"
}

func (one Wheel) archive() []byte {
	if one.Archive != nil {
		return one.Archive
	}
	metadata := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: A package.\n", one.Name,
		one.Version)
	for _, r := range one.Requires {
		metadata += "Requires-Dist: " + r + "\n"
	}
	if one.Metadata != "" {
		metadata = one.Metadata
	}
	info := one.base() + ".dist-info/"
	files := map[string]string{
		info + "METADATA": metadata,
		info + "WHEEL":    "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD":   "",
	}
	if one.Scripts != "" {
		files[info+"entry_points.txt"] = "[console_scripts]\n" + one.Scripts + "\n"
	}
	maps.Copy(files, one.Files)
	var entries []Entry
	for _, name := range slices.Sorted(maps.Keys(files)) {
		entries = append(entries, Entry{Name: name, Body: files[name]})
	}
	return Zip(entries...)
}

// Zip returns an archive with the entries. An entry with a Link is a symbolic link.
func Zip(entries ...Entry) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.Name, Method: zip.Deflate, Modified: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		h.SetMode(0o644)
		if e.Link != "" {
			h.SetMode(os.ModeSymlink | 0o777)
			e.Body = e.Link
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			panic(fmt.Sprintf("%s: %v", e.Name, err))
		}
		_, _ = f.Write([]byte(e.Body))
	}
	_ = w.Close() // writes to memory
	return out.Bytes()
}
