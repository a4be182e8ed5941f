// Package recording defines the section record of a configuration.
package recording

import (
	"slices"

	"github.com/exthost/exthost/manifest"
)

// Cassette is a recording of what passes between the host and its extensions, from the start of the host to its end.
type Cassette struct {
	// the cassette; a cassette that exists is set aside as FILE.1; "": nothing is recorded
	File string `json:"file,omitempty" path:"true"`
	// ids of those that are recorded; default: all, and all destinations
	Extensions []string `json:"extensions,omitempty"`
	// where the recording ends, at least 512; default 1 GiB
	MaxBytes manifest.Size `json:"max_bytes,omitempty"`
	// the directory that the file must be in, without a link that leads out; "": it may be anywhere
	Within string `json:"-"`
}

// Equal reports whether s and other ask for the same recording.
func (s Cassette) Equal(other Cassette) bool {
	return s.File == other.File && s.MaxBytes == other.MaxBytes && s.Within == other.Within &&
		slices.Equal(s.Extensions, other.Extensions)
}
