package status

import "time"

// Recording is a running recording of the messages between the host and its extensions.
type Recording struct {
	// configured file; "" for a recording that a client reads, such as exthost record
	File       string    `json:"file,omitempty"`
	Extensions []string  `json:"extensions,omitempty"` // recorded extensions; none: all
	Since      time.Time `json:"since"`
	Records    int64     `json:"records"`       // lines written
	Waiting    int64     `json:"waiting_bytes"` // to be masked and written
	// of Records: too long or not JSON, so that only their length was recorded
	Omitted int64 `json:"omitted,omitempty"`
}
