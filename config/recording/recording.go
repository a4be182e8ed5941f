// Package recording defines the section record of a configuration.
package recording

import "github.com/exthost/exthost/manifest"

// Cassette records the messages between the host and its extensions while the host runs.
type Cassette struct {
	// the cassette; an existing one is renamed to FILE.1; default: no recording
	File string `json:"file,omitempty" path:"true"`
	// ids to record; default: all extensions and destinations
	Extensions []string `json:"extensions,omitempty"`
	// size at which the recording ends, at least 512; default 1 GiB
	MaxBytes manifest.Size `json:"max_bytes,omitempty"`
	// the directory that the file must be in, links resolved; "": anywhere
	Within string `json:"-"`
}
