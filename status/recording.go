package status

import "time"

// Recording is a recording under way of what passes between the host and its extensions.
type Recording struct {
	// of the configuration; "" for one that a client of the host reads, such as exthost record
	File       string    `json:"file,omitempty"`
	Extensions []string  `json:"extensions,omitempty"` // that are recorded; none: all
	Since      time.Time `json:"since"`
	Records    int64     `json:"records"`       // lines written
	Waiting    int64     `json:"waiting_bytes"` // of what is still to be masked and written
	// of Records: frames that were too long, or no JSON, of which only the length was recorded
	Omitted int64 `json:"omitted,omitempty"`
}
