package exthost

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/exthost/exthost/runtime"
)

// source tells what an extension is made of from another version of it: its
// manifest, all that the configuration and the environment add, and the files that
// its command line names.
type source [sha256.Size]byte

// sourceOf reads what s would run now.
func sourceOf(s *runtime.Spec) source {
	h := sha256.New()
	err := json.NewEncoder(h).Encode([]any{s.ID, s.Dir, s.Manifest, s.Options, s.Config, s.Env})
	for _, file := range namedFiles(s) {
		sum, wrong := identify(file, s.Dir)
		fmt.Fprintln(h, file, sum, wrong)
	}
	fmt.Fprint(h, err) // there is none, with these types
	return source(h.Sum(nil))
}
