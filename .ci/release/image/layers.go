package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// base opens the archive of what every image has: the user, the certificates, and places to write.
func (r *release) base() (io.ReadCloser, error) {
	return r.archive(func(w *tar.Writer) error {
		return errors.Join(
			r.dir(w, "etc", 0o755, 0),
			r.file(w, "etc/group", 0o644, []byte(fmt.Sprintf("root:x:0:\nexthost:x:%d:\n", user))),
			r.file(w, "etc/nsswitch.conf", 0o644, []byte("hosts: files dns\n")),
			r.file(w, "etc/passwd", 0o644, []byte(fmt.Sprintf("root:x:0:0:root:/root:/sbin/nologin\n"+
				"exthost:x:%d:%d:exthost:/state:/sbin/nologin\n", user, user))),
			r.dir(w, "etc/ssl", 0o755, 0),
			r.dir(w, "etc/ssl/certs", 0o755, 0),
			r.file(w, "etc/ssl/certs/ca-certificates.crt", 0o644, authorities()),
			r.dir(w, "extensions", 0o755, 0),
			r.dir(w, "state", 0o700, user),
			r.dir(w, "tmp", 0o1777, 0),
			r.dir(w, "usr", 0o755, 0),
			r.dir(w, "usr/bin", 0o755, 0),
		)
	})
}

// authorities are the roots that Mozilla trusts, as one file. One that is trusted only for some names or times is left
// out: a file cannot say so.
func authorities() []byte {
	var all []byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return all
}

// program returns what opens the archive of the program alone.
func (r *release) program(path string) tarball.Opener {
	return func() (io.ReadCloser, error) {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		return r.archive(func(w *tar.Writer) error { return r.file(w, "usr/bin/exthost", 0o755, data) })
	}
}

// archive returns what fill writes.
func (r *release) archive(fill func(*tar.Writer) error) (io.ReadCloser, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := errors.Join(fill(w), w.Close())
	return io.NopCloser(&b), err
}

func (r *release) dir(w *tar.Writer, name string, mode int64, owner int) error {
	return w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeDir, Name: name + "/", Mode: mode, Uid: owner, Gid: owner, ModTime: r.created,
	})
}

func (r *release) file(w *tar.Writer, name string, mode int64, data []byte) error {
	err := w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data)), ModTime: r.created,
	})
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}
