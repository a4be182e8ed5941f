// Package status is what a host says about itself: its extensions, destinations and
// policies, the events in it, and the counts that metrics are made of. It holds data
// only.
package status

import (
	"strings"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// Status is a snapshot of a host.
type Status struct {
	Host       *Host  `json:"host,omitempty"` // nil unless the operating system was asked
	Version    string `json:"version"`
	Generation uint64 `json:"generation"` // of the tool catalog
	// ask, lock or off: what of the working directory runs; "" in a program that chose the directory itself
	Trust       string      `json:"trust,omitempty"`
	Containment Containment `json:"containment"`
	// what starts with the host has not all started or failed
	Starting bool `json:"starting,omitempty"`
	// ids of extensions without which the host is not ready, sorted
	Required []string `json:"required,omitempty"`
	// in discovery order, the skipped ones last
	Extensions       []Extension `json:"extensions"`
	Policies         []Policy    `json:"policies,omitempty"`          // in the order in which they are asked
	Audit            *Audit      `json:"audit,omitempty"`             // nil: no record is kept
	Tracing          *Tracing    `json:"tracing,omitempty"`           // nil: no spans of calls are sent
	Recordings       []Recording `json:"recordings,omitempty"`        // under way, the oldest first
	ApprovalRequests int         `json:"approval_requests,omitempty"` // that wait for an answer
	// not answered yet, oldest first; at most 256
	Questions    []Question    `json:"questions,omitempty"`
	Destinations []Destination `json:"destinations,omitempty"` // by name
	Cluster      *Cluster      `json:"cluster,omitempty"`      // nil: the host is in none
	Server       *Server       `json:"server,omitempty"`       // nil: the host serves no HTTP
	// the sessions, then clients without one; none unless the operating system was asked
	Clients []Client `json:"clients,omitempty"`
	// of server.clients, by name; none unless the operating system was asked
	NamedClients []NamedClient         `json:"named_clients,omitempty"`
	Diagnostics  []protocol.Diagnostic `json:"diagnostics"`
}

// Host is the host's own process.
type Host struct {
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`          // when the host was opened
	RSS       int64     `json:"rss_bytes,omitempty"` // memory; 0 where the system does not tell
}

// Containment names the mechanisms that end the processes of an extension together
// with the extension and with the host, however either ends.
type Containment struct {
	// Holds lists the mechanisms in force at this moment: "process group" (ends every
	// process in an extension's group), "cookie sweep" (ends processes that left the
	// group but kept their ancestors or their environment), "guardian" (a process that
	// does both when the host is killed).
	Holds []string `json:"holds"`
	// Lacks lists the other mechanisms, each with a reason after a colon.
	Lacks []string `json:"lacks,omitempty"`
}

// String names the mechanisms in force: "process group + cookie sweep + guardian".
func (c Containment) String() string {
	if len(c.Holds) == 0 {
		return "none"
	}
	return strings.Join(c.Holds, " + ")
}

// Sandbox is how the processes of an extension are confined.
type Sandbox struct {
	// what the kernel enforces: "files", "system calls", "network", "signals", "attributes"
	Holds []string `json:"holds"`
	// what it does not, each with a reason after a colon; the extension starts nevertheless if BestEffort is set
	Lacks []string `json:"lacks,omitempty"`
	Read  []string `json:"read"`            // absolute paths that it reads, besides the system's programs and libraries
	Write []string `json:"write,omitempty"` // absolute paths that it writes
	Net   string   `json:"net"`             // none, loopback, or host:port with blanks between

	BestEffort bool `json:"best_effort,omitempty"` // it runs with less than it asked for
}

// String says what is enforced and what is not; "" for a nil Sandbox.
func (s *Sandbox) String() string {
	if s == nil {
		return ""
	}
	text := "in a sandbox: " + strings.Join(s.Holds, ", ")
	if len(s.Holds) == 0 {
		text = "its sandbox is not enforced"
	}
	if len(s.Lacks) > 0 {
		text += "; NOT enforced: " + strings.Join(s.Lacks, "; ")
	}
	return text
}

// Extension is one extension's part of [Status].
type Extension struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	Version     string `json:"version"`
	Description string `json:"description,omitempty"`
	Path        string `json:"path"` // of its manifest
	Transport   string `json:"transport"`
	Protocol    string `json:"protocol,omitempty"` // with the MCP revision once known
	// a supervisor state, [StateSkipped], [StateUntrusted], [StateDisabled] or [StateNotReady]
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"` // for every state but ready
	// other nodes of the cluster that share it, which calls may go to
	Nodes []string `json:"nodes,omitempty"`
	// why a person has to sign in to its server, and how; "" when nobody has to
	Login string `json:"login,omitempty"`
	// of instances whose run ended unasked, in all builds since the host was opened
	Restarts   int    `json:"restarts"`
	Activation string `json:"activation,omitempty"` // eager or lazy; "" when the extension does not run
	// what holds its processes besides [Status].Containment: "pid namespace"
	Containment string `json:"containment,omitempty"`
	// its processes may gain privileges, and keep the host's capabilities
	NewPrivileges bool `json:"new_privileges,omitempty"`

	Sandbox *Sandbox `json:"sandbox,omitempty"` // how its processes are confined; nil: not at all

	Command  []string          `json:"command,omitempty"`   // the command line, or the URL, as the manifest states it
	StateDir string            `json:"state_dir,omitempty"` // private to the extension, survives restarts
	Requires manifest.Requires `json:"requires,omitzero"`

	Tools    []string `json:"tools"`              // registered names
	Withheld []string `json:"withheld,omitempty"` // tools that have changed since they were pinned
	Hooks    []string `json:"hooks,omitempty"`
	HooksSee string   `json:"hooks_see,omitempty"` // own, all or none: whose calls its hooks see; "" without hooks

	Config map[string]any `json:"config,omitempty"` // of the manifest that runs, without the operator's

	Requests int64 `json:"requests"` // of callers to this extension, however they ended
	// of Requests: a policy or a hook denied it, or no policy could decide
	Denied     int64 `json:"denied"`
	Invalid    int64 `json:"invalid_arguments"` // of Requests: the arguments do not match the tool's schema
	ToolErrors int64 `json:"tool_errors"`       // of Requests: the tool ran and reports a failure
	// of Requests: reached an instance; counted once, however many instances had it
	Calls  int64 `json:"calls"`
	Errors int64 `json:"errors"` // of Calls, those that failed for any other reason
	// of Requests: failed, and reached no instance: not ready, overloaded, failed …
	Refused int64    `json:"refused"`
	Latency *Latency `json:"latency,omitempty"` // of Calls; nil before the first

	FailedInRow int64    `json:"failed_in_row"`          // of Errors, those since a call was answered
	LastFailure *Failure `json:"last_failure,omitempty"` // of a call that reached an instance
	LastCrash   *Crash   `json:"last_crash,omitempty"`   // stays after a restart

	// variables that are not passed on to the extension
	EnvWithheld []string `json:"env_withheld,omitempty"`
	// secret-like variables that the manifest declares and the extension gets
	EnvPassedSecrets []string   `json:"env_passed_secrets,omitempty"`
	Instances        []Instance `json:"instances,omitempty"`
}

// The states of an extension that was found and does not run.
const (
	StateSkipped = "skipped" // a requirement is missing or cannot be used
	// the user has not agreed to run it as it is, or to give it the secrets that it asks for
	StateUntrusted = "untrusted"
	StateDisabled  = "disabled"  // the configuration's disabled or allowlist leaves the extension out
	StateNotReady  = "not_ready" // its files cannot be read: permissions, or the host lacks descriptors
)

// LeftOut reports whether the extension does not run although the configuration lets it:
// it is skipped or untrusted, and a diagnostic says why.
func (x *Extension) LeftOut() bool { return x.State == StateSkipped || x.State == StateUntrusted }

// Instance is one copy of an extension, running or not.
type Instance struct {
	Key       string             `json:"key,omitempty"` // the session that owns it, or its number of N
	State     string             `json:"state"`
	Since     time.Time          `json:"since,omitzero"`
	Reason    string             `json:"reason,omitempty"`   // of the latest failure
	Evidence  *protocol.Evidence `json:"evidence,omitempty"` // of the latest failure
	Restarts  int                `json:"restarts"`
	NextRetry *time.Time         `json:"next_retry,omitempty"`
	Breaker   string             `json:"breaker,omitempty"`
	NextProbe *time.Time         `json:"next_probe,omitempty"` // of an open breaker: when a call may try again
	// why the host doubts that the instance still works, and pings it
	Doubt    string `json:"doubt,omitempty"`
	InFlight int    `json:"in_flight"`
	Queued   int    `json:"queued"`

	PID       int       `json:"pid,omitempty"` // 0 when no process lives
	StartedAt time.Time `json:"started_at,omitzero"`
	// of the process and those that it started; 0 unless the operating system was asked
	RSS int64 `json:"rss_bytes,omitempty"`
}

// Failure is a failed call that had reached an instance.
type Failure struct {
	Time   time.Time     `json:"time"`
	Tool   string        `json:"tool,omitempty"` // its registered name; "" for another request
	Kind   protocol.Kind `json:"kind"`
	Reason string        `json:"reason"` // as the caller got it, with secrets masked; one line of at most 240 bytes
}

// Crash is the end of an instance that nobody asked for.
type Crash struct {
	Time      time.Time          `json:"time"`
	Key       string             `json:"key,omitempty"`       // of the instance
	PID       int                `json:"pid,omitempty"`       // 0 when the instance never became ready
	StartedAt time.Time          `json:"started_at,omitzero"` // zero when there was no process
	Kind      protocol.Kind      `json:"kind"`
	Reason    string             `json:"reason"`
	Evidence  *protocol.Evidence `json:"evidence,omitempty"`
}

// Destination is one destination's part of [Status].
type Destination struct {
	Extension
	Listens    string     `json:"listens,omitempty"`     // its own address, besides /{id} of the server
	StandbyPID int        `json:"standby_pid,omitempty"` // the process that waits for the next connection
	Refuses    string     `json:"refuses,omitempty"`     // why new connections are refused; "" when they are not
	RetryAt    *time.Time `json:"retry_at,omitempty"`    // when the next connection may try
}

// PolicyPrefix begins the id of a policy's process, policy:NAME. No extension's id can
// begin with it.
const PolicyPrefix = "policy:"

// Policy is one policy's part of [Status].
type Policy struct {
	Name     string              `json:"name"`
	Category governance.Category `json:"category"`
	Kind     governance.Kind     `json:"kind"`
	Builtin  string              `json:"builtin,omitempty"` // which, for kind builtin
	Mode     governance.Mode     `json:"mode"`
	Required bool                `json:"required"`
	Flows    []governance.Flow   `json:"flows"`
	Priority int                 `json:"priority,omitempty"`
	// a supervisor state; ready for a policy without a process; disabled
	State   string        `json:"state"`
	Reason  string        `json:"reason,omitempty"`  // for every state but ready
	Calls   []PolicyCalls `json:"calls"`             // by flow; empty before the first
	Process *Extension    `json:"process,omitempty"` // of kinds that have one

	// those of [Status] about this policy: patterns that match nothing
	Diagnostics []protocol.Diagnostic `json:"diagnostics,omitempty"`
}

// PolicyCalls counts a policy's decisions about one flow since the host was opened, or
// since the policy was last new. Its keys are fit for metrics: policy names and codes
// are few.
type PolicyCalls struct {
	Flow     governance.Flow `json:"flow"`
	Continue int64           `json:"continue"`
	Rejected int64           `json:"rejected"`
	Errors   int64           `json:"plugin_error"` // the policy could not decide
	Dropped  int64           `json:"dropped"`      // exchanges that an overloaded observer did not see
	// of Continue: exchanges that the policy would reject outside shadow mode
	Shadow int64 `json:"shadow"`
	// of Rejected and Shadow, by code; see [governance.BoundedCode]
	Codes   map[string]int64 `json:"codes,omitempty"`
	Latency *Latency         `json:"latency,omitempty"` // nil before the first
}

// Audit is the state of the audit log.
type Audit struct {
	Path   string `json:"path"`
	Reason string `json:"reason,omitempty"` // why nothing can be written; no request passes then
}

// Pin is one pinned tool, and the name of the policy that pinned it.
type Pin struct {
	Policy string `json:"policy"`
	pins.Pin
}

// Hook is one hook handler.
type Hook struct {
	Event    string            `json:"event"`
	Name     string            `json:"name"`
	Source   string            `json:"source"` // config, extension ID, or code
	Priority int               `json:"priority"`
	Matcher  string            `json:"matcher"`
	Own      bool              `json:"own,omitempty"` // runs only for its extension's own tools
	Timeout  protocol.Duration `json:"timeout_ms"`
	OnError  string            `json:"on_error"`          // allow or deny
	Command  []string          `json:"command,omitempty"` // as stated
}
