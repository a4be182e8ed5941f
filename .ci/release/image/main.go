// Image writes container images of a release as an OCI layout, without a daemon, a network or a privilege:
//
//	image -out DIR -version 0.1.0 -revision COMMIT -created SECONDS amd64=PROGRAM arm64=PROGRAM
//	image ... -variant node amd64=PROGRAM,ROOT.tar arm64=PROGRAM,ROOT.tar
//
// An image has the program, the certificates of public authorities, and a user that is not root; no shell and no
// package manager. One with a variant has the files of an archive below these, such as an interpreter. What it is given
// decides every byte that it writes: archives have one time, one owner and one order.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is who runs in a container: that of the pods in examples/deploy.
const user = 10001

// release is what the images of one run share.
type release struct {
	version, revision, variant string
	created                    time.Time
}

func main() {
	out := flag.String("out", "", "the directory of the layout, made if missing; images in it stay")
	var r release
	flag.StringVar(&r.version, "version", "", "version of the release")
	flag.StringVar(&r.revision, "revision", "", "commit of the release")
	flag.StringVar(&r.variant, "variant", "", "what an image has beside the program, such as node")
	created := flag.Int64("created", -1, "time of the commit, in seconds since 1970")
	flag.Parse()
	r.created = time.Unix(*created, 0).UTC()
	if *out == "" || r.version == "" || r.revision == "" || *created < 0 || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := r.write(*out, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

// write adds an index of one image for each architecture to the layout in dir.
func (r *release) write(dir string, archs []string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arg := range archs {
		arch, files, _ := strings.Cut(arg, "=")
		program, root, _ := strings.Cut(files, ",")
		if arch == "" || program == "" {
			return fmt.Errorf("%q is not ARCH=PROGRAM or ARCH=PROGRAM,ROOT.tar", arg)
		}
		image, err := r.image(arch, program, root)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	index = mutate.Annotations(index, r.labels()).(v1.ImageIndex)
	path, err := layout.FromPath(dir)
	if err != nil {
		if path, err = layout.Write(dir, empty.Index); err != nil {
			return err
		}
	}
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.tag(),
	}))
}

func (r *release) tag() string {
	if r.variant == "" {
		return r.version
	}
	return r.version + "-" + r.variant
}

// part is a layer of an image.
type part struct {
	what string
	open tarball.Opener // of an archive that is not compressed
}

// image returns the image for an architecture. Without a root it begins with nothing.
func (r *release) image(arch, program, root string) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	parts := []part{{"base", r.base}, {"program", r.program(program)}}
	if root != "" {
		open := func() (io.ReadCloser, error) { return os.Open(root) }
		parts = append([]part{{r.variant, open}}, parts...)
	}
	var layers []mutate.Addendum
	for _, p := range parts {
		layer, err := tarball.LayerFromOpener(p.open, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.what, err)
		}
		layers = append(layers, mutate.Addendum{
			Layer:   layer,
			History: v1.History{CreatedBy: "exthost " + p.what, Created: v1.Time{Time: r.created}},
		})
	}
	image, err := mutate.Append(base, layers...)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", arch, v1.Time{Time: r.created}
	file.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", user, user),
		WorkingDir: "/state",
		Env:        []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/state", "XDG_STATE_HOME=/state"},
		// MCP clients run an image with docker run -i. Over HTTP a host in a container needs a token: docs/deploy.md.
		Cmd:        []string{"exthost", "serve", "--stdio", "--extensions", "/extensions"},
		Volumes:    map[string]struct{}{"/state": {}},
		Labels:     r.labels(),
		StopSignal: "SIGTERM",
	}
	return mutate.ConfigFile(image, file)
}

func (r *release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "exthost",
		"org.opencontainers.image.description": "Extension host for LLM agents",
		"org.opencontainers.image.source":      "https://github.com/exthost/exthost",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.revision,
		"org.opencontainers.image.created":     r.created.Format(time.RFC3339),
	}
}
