package scaffold

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/sdk/node"
	"github.com/exthost/exthost/sdk/python"
)

// sdkFiles returns the files of an SDK, which is identified by its main file.
func sdkFiles(sdk string) map[string][]byte {
	switch sdk {
	case "exthost.py":
		return map[string][]byte{"exthost.py": python.Source}
	case "exthost.mjs":
		return map[string][]byte{"exthost.mjs": node.Source, "exthost.d.mts": node.Types}
	}
	return nil
}

// vendored returns a file of an SDK for an extension. Its first line states the origin and
// a hash, which detects modifications.
func vendored(name string, source []byte, version string) []byte {
	comment := "//"
	if filepath.Ext(name) == ".py" {
		comment = "#"
	}
	return append(fmt.Appendf(nil, "%s exthost SDK %s, sha256 %x: exthost init --update-sdk replaces it\n", comment,
		version, sha256.Sum256(source)), source...)
}

// modified reports whether an SDK file was modified. An empty file does not count as modified, so that an author can
// empty a file to have it replaced.
func modified(data []byte) bool {
	if len(data) == 0 {
		return false
	}
	header, source, _ := bytes.Cut(data, []byte("\n"))
	return !bytes.Contains(header, fmt.Appendf(nil, "sha256 %x:", sha256.Sum256(source)))
}

// Update replaces the SDK files in an extension's directory and returns the names of the replaced ones. If a file was
// modified, it returns an error and replaces nothing.
func Update(dir, version string) (replaced []string, err error) {
	var sdk string
	for _, name := range []string{"exthost.py", "exthost.mjs"} {
		if exists(filepath.Join(dir, name)) {
			sdk = name
		}
	}
	files := sdkFiles(sdk)
	if files == nil {
		return nil, fmt.Errorf("%s holds neither exthost.py nor exthost.mjs, the SDKs that stand beside an extension",
			dir)
	}
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil && modified(data) {
			return nil, fmt.Errorf("%s was changed by hand; keep the changes elsewhere, empty the file and try again",
				filepath.Join(dir, name))
		}
	}
	for _, name := range names {
		path, want := filepath.Join(dir, name), vendored(name, files[name], version)
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, want) {
			continue
		}
		if err := file.WriteAtomic(path, want); err != nil {
			return replaced, err
		}
		replaced = append(replaced, name)
	}
	return replaced, nil
}
