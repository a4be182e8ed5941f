//go:build unix

package installtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// release has the files of a release by name, as the project publishes them. Tests change them to make a bad one.
type release struct {
	version string
	files   map[string][]byte
}

// newRelease returns a release whose program is a script that says its version.
func newRelease(version string) *release {
	return releaseOf(version, []byte("#!/bin/sh\necho exthost "+version+" go1.26 test/test\n"))
}

func releaseOf(version string, program []byte) *release {
	r := &release{version: version, files: make(map[string][]byte)}
	r.pack(tar.Header{Name: "exthost", Mode: 0o755, Uid: 4242, Gid: 4242}, program)
	return r
}

// archive is the name of the archive for this machine.
func (r *release) archive() string {
	return fmt.Sprintf("exthost_%s_%s_%s.tar.gz", r.version, runtime.GOOS, runtime.GOARCH)
}

// pack replaces the archive by one of a page and a member, and states its checksum.
func (r *release) pack(h tar.Header, data []byte) { r.put(r.archive(), packed(h, data)) }

// packed returns an archive of a page and a member.
func packed(h tar.Header, data []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	t := tar.NewWriter(z)
	_ = t.WriteHeader(&tar.Header{Name: "LICENSE", Mode: 0o644})
	h.Size = int64(len(data))
	_ = t.WriteHeader(&h)
	_, _ = t.Write(data)
	_ = t.Close()
	_ = z.Close()
	return b.Bytes()
}

// put adds a file, and writes the checksums of all.
func (r *release) put(name string, data []byte) {
	r.files[name] = data
	var sums strings.Builder
	fmt.Fprintf(&sums, "%s  exthost_%s_plan9_amd64.tar.gz\n", strings.Repeat("0", 64), r.version)
	for name, data := range r.files {
		if name != "checksums.txt" {
			sum := sha256.Sum256(data)
			fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), name)
		}
	}
	r.files["checksums.txt"] = []byte(sums.String())
}

// site serves releases over TLS, as the site of the project does.
type site struct {
	*httptest.Server
	ca string // the file of its certificate

	mu       sync.Mutex
	releases map[string]*release // by version; "latest" is one too
	answer   func(w http.ResponseWriter, r *http.Request) (done bool)
	asked    []string
}

func newSite(t *testing.T, latest *release) *site {
	s := &site{releases: map[string]*release{"latest": latest, "v" + latest.version: latest}}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that refuse the certificate
	s.StartTLS()
	t.Cleanup(s.Close)
	s.ca = filepath.Join(t.TempDir(), "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(s.ca, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// ServeHTTP answers /releases/latest/download/FILE and /releases/download/VERSION/FILE.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.Path)
	answer := s.answer
	s.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/releases")
	path = strings.Replace(path, "/latest/download/", "/download/latest/", 1)
	version, name, _ := strings.Cut(strings.TrimPrefix(path, "/download/"), "/")
	release := s.releases[version]
	if release == nil || release.files[name] == nil {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(release.files[name])
}

// requests are the paths that were asked for.
func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}
