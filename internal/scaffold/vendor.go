package scaffold

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/sdk/node"
	"github.com/exthost/exthost/sdk/python"
)

// sdkFiles are the files that belong to an SDK, by the name of its program.
func sdkFiles(sdk string) map[string][]byte {
	switch sdk {
	case "exthost.py":
		return map[string][]byte{"exthost.py": python.Source}
	case "exthost.mjs":
		return map[string][]byte{"exthost.mjs": node.Source, "exthost.d.mts": node.Types}
	}
	return nil
}

// vendored is a file of an SDK as it stands beside an extension: behind a line
// that says where it comes from and, by its hash, whether somebody changed it.
func vendored(name string, source []byte, version string) []byte {
	comment := "//"
	if filepath.Ext(name) == ".py" {
		comment = "#"
	}
	return append(fmt.Appendf(nil, "%s exthost SDK %s, sha256 %x: exthost init --update-sdk replaces it\n", comment, version, sha256.Sum256(source)), source...)
}

// changed reports whether a vendored file is no longer what was written. An empty
// one is asking for it.
func changed(data []byte) bool {
	if len(data) == 0 {
		return false
	}
	header, source, _ := bytes.Cut(data, []byte("\n"))
	return !bytes.Contains(header, fmt.Appendf(nil, "sha256 %x:", sha256.Sum256(source)))
}

// Update replaces the SDK files in an extension's directory by those of this
// version and returns the names of those that were others. It does not touch one
// that was changed by hand.
func Update(dir, version string) (replaced []string, err error) {
	var sdk string
	for _, name := range []string{"exthost.py", "exthost.mjs"} {
		if exists(filepath.Join(dir, name)) {
			sdk = name
		}
	}
	files := sdkFiles(sdk)
	if files == nil {
		return nil, fmt.Errorf("%s holds neither exthost.py nor exthost.mjs, the SDKs that stand beside an extension", dir)
	}
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil && changed(data) {
			return nil, fmt.Errorf("%s was changed by hand; keep the changes elsewhere, empty the file and try again", filepath.Join(dir, name))
		}
	}
	for _, name := range names {
		path, want := filepath.Join(dir, name), vendored(name, files[name], version)
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, want) {
			continue
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			return replaced, err
		}
		replaced = append(replaced, name)
	}
	return replaced, nil
}
