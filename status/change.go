package status

import (
	"time"

	"github.com/exthost/exthost/protocol"
)

// Change lists what a reload did or would do. Extensions are named by id.
type Change struct {
	Added   []string `json:"added"`
	Changed []string `json:"changed"` // replaced by their new build
	Removed []string `json:"removed"`
	// extensions whose new build cannot be used, so that the previous one keeps running
	Kept    []KeptBuild `json:"kept"`
	Retried []string    `json:"retried"` // unchanged, restarted because they had failed
	// sections of the configuration that need a restart of the host
	Restart []string              `json:"restart"`
	Skills  []string              `json:"skills"` // extensions that go on with other skills
	Failed  []protocol.Diagnostic `json:"failed"` // new or retried extensions that did not start

	Destinations []string `json:"destinations"` // names of destinations added, changed or removed
	Policies     []string `json:"policies"`     // names of policies added, changed or removed
	Clients      []string `json:"clients"`      // names of clients added, changed or removed
	// differing lines of policies and hooks: "- " and the old line, "+ " and the new one
	Rules []string `json:"rules"`
	Files []string `json:"files"` // changed files of extensions, as ID/NAME
}

// KeptBuild is an extension whose previous build keeps running.
type KeptBuild struct {
	ID     string `json:"id"`
	Reason string `json:"reason"` // the reasons, one a line
	// the command that accepts the new build; "" if its files must be fixed
	Next     string             `json:"next,omitempty"`
	Evidence *protocol.Evidence `json:"evidence,omitempty"` // of the new build; nil if it was not started
}

// Empty reports whether nothing changes.
func (c *Change) Empty() bool {
	return len(c.Added)+len(c.Changed)+len(c.Removed)+len(c.Kept)+len(c.Retried)+len(c.Restart)+len(c.Policies)+
		len(c.Destinations)+len(c.Clients)+len(c.Rules)+len(c.Skills) == 0
}

// WatchOff is the mode of a host that does not watch the disk. The other modes are config.WatchLog and
// config.WatchReload.
const WatchOff = "off"

// Watch describes how a host watches for changes on disk.
type Watch struct {
	Mode        string            `json:"mode"` // off, log or reload
	Debounce    protocol.Duration `json:"debounce_ms"`
	Directories int               `json:"directories"` // number of watched directories
	// why the host polls every two seconds; "": it gets notifications
	Polling    string    `json:"polling,omitempty"`
	Changes    int       `json:"changes"`              // found since the host was opened
	LastChange time.Time `json:"last_change,omitzero"` // time of the latest change
	// why the latest change, a part of it, or a later reload could not be applied
	LastProblem string `json:"last_problem,omitzero"`
}
