package status

import (
	"time"

	"github.com/exthost/exthost/protocol"
)

// Change is what a reload does, or would do. Extensions are named by id.
type Change struct {
	Added   []string `json:"added"`
	Changed []string `json:"changed"` // replaced by their new build
	Removed []string `json:"removed"`
	// extensions whose new build cannot be used: the previous build goes on
	Kept    []KeptBuild `json:"kept"`
	Retried []string    `json:"retried"` // unchanged, and started again because they had failed
	// sections of the configuration that take effect at the host's next start
	Restart []string              `json:"restart"`
	Failed  []protocol.Diagnostic `json:"failed"` // extensions, new or retried, that did not start

	Destinations []string `json:"destinations"` // names of those added, changed or removed
	Policies     []string `json:"policies"`     // names of those added, changed or removed
	Clients      []string `json:"clients"`      // names of the named clients added, changed or removed
	// how policies and hooks of the configuration differ: "- " and a line as it was, "+ " and one as it is
	Rules []string `json:"rules"`
	Files []string `json:"files"` // files that differ in a changed extension, as ID/NAME
}

// KeptBuild is an extension whose previous build goes on.
type KeptBuild struct {
	ID     string `json:"id"`
	Reason string `json:"reason"` // one line for each of several reasons
	// the command that has the new build run; "" when its files are to be mended
	Next     string             `json:"next,omitempty"`
	Evidence *protocol.Evidence `json:"evidence,omitempty"` // of the new build; nil when it was not started
}

// Empty reports whether nothing changes.
func (c *Change) Empty() bool {
	return len(c.Added)+len(c.Changed)+len(c.Removed)+len(c.Kept)+len(c.Retried)+len(c.Restart)+len(c.Policies)+
		len(c.Destinations)+len(c.Clients)+len(c.Rules) == 0
}

// WatchOff is the mode of a host that does not look for changes on disk. The other modes
// are config.WatchLog and config.WatchReload.
const WatchOff = "off"

// Watch says whether, and how, a host looks for changes on disk.
type Watch struct {
	Mode        string            `json:"mode"` // off, log or reload
	Debounce    protocol.Duration `json:"debounce_ms"`
	Directories int               `json:"directories"` // that are watched
	// why the host polls every two seconds; "": the system notifies it
	Polling    string    `json:"polling,omitempty"`
	Changes    int       `json:"changes"`              // found since the host was opened
	LastChange time.Time `json:"last_change,omitzero"` // when the latest was found
	// why that change, or a part of it, or a reload since, could not be used
	LastProblem string `json:"last_problem,omitzero"`
}
