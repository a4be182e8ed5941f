// Package status defines what a host reports about itself: extensions, destinations, policies, events, and the
// counts behind metrics.
package status

import (
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// Status is a snapshot of a host.
type Status struct {
	Verdict    Verdict `json:"verdict"`
	Host       *Host   `json:"host,omitempty"` // only in the result of exthost.Admin.Status
	Version    string  `json:"version"`
	Generation uint64  `json:"generation"` // of the tool catalog
	// what of the working directory may run: ask, lock or off; "" in a program that chose the directory itself
	Trust       string      `json:"trust,omitempty"`
	Containment Containment `json:"containment"`
	// extensions that start with the host are still starting
	Starting bool `json:"starting,omitempty"`
	// sections of the configuration that have changed and take effect when the host is started again
	Restart []string `json:"restart,omitempty"`
	// sorted ids of the extensions that the host needs to be ready
	Required []string `json:"required,omitempty"`
	// in discovery order, skipped ones last
	Extensions       []Extension `json:"extensions"`
	Policies         []Policy    `json:"policies,omitempty"`          // in the order in which they decide
	Audit            *Audit      `json:"audit,omitempty"`             // nil: no audit log
	Tracing          *Tracing    `json:"tracing,omitempty"`           // nil: no tracing
	Recordings       []Recording `json:"recordings,omitempty"`        // running ones, oldest first
	ApprovalRequests int         `json:"approval_requests,omitempty"` // number of pending requests
	// denials of the last hour among the latest 256 calls, by caller and policy; the latest first, at most 32
	Denials []Denials `json:"denials,omitempty"`
	// unanswered, oldest first; at most 256
	Questions    []Question    `json:"questions,omitempty"`
	Destinations []Destination `json:"destinations,omitempty"` // by name
	Cluster      *Cluster      `json:"cluster,omitempty"`      // nil: not in a cluster
	Server       *Server       `json:"server,omitempty"`       // nil: no HTTP server
	// sessions, then clients without one; only in the result of exthost.Admin.Status
	Clients []Client `json:"clients,omitempty"`
	// server.clients, by name; only in the result of exthost.Admin.Status
	NamedClients []NamedClient         `json:"named_clients,omitempty"`
	Diagnostics  []protocol.Diagnostic `json:"diagnostics"`
}

// Host is the host's process.
type Host struct {
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`          // when the host was opened
	RSS       int64     `json:"rss_bytes,omitempty"` // memory; 0 if the system does not report it
	// open files, connections among them; 0 if the system does not report it
	OpenFiles int    `json:"open_files,omitempty"`
	MaxFiles  uint64 `json:"max_files,omitempty"` // limit of OpenFiles; 0 if unknown
	// the host's own files that cannot grow because their file system is full
	Full []FullPlace `json:"full,omitempty"`
}

// FullPlace is where the host writes and no room is left.
type FullPlace struct {
	Of     string `json:"of"` // audit.path, log.file or the state directory
	Path   string `json:"path"`
	Reason string `json:"reason"` // such as: less than 64 KiB are free
}

// String describes the place and why it is full.
func (p FullPlace) String() string { return p.Of + " (" + p.Path + "): " + p.Reason }

// spareFiles is how many more files a host has to be able to open: the start of an extension takes some ten.
const spareFiles = 12

// FewFiles reports whether the host can hardly open another file or connection, or could not when it was to start an
// extension: that needs several at once, which the host may have again when it is asked.
func (s *Status) FewFiles() bool {
	h := s.Host
	if h == nil || h.MaxFiles == 0 || h.OpenFiles == 0 {
		return false
	}
	starved := func(x Extension) bool { return x.down() && strings.Contains(x.Reason, syscall.EMFILE.Error()) }
	return h.OpenFiles+spareFiles > int(h.MaxFiles) ||
		h.OpenFiles > int(h.MaxFiles)/2 && slices.ContainsFunc(s.Extensions, starved)
}

// Containment lists the mechanisms that end all processes of an extension with the extension and with the host,
// however they end.
type Containment struct {
	// Holds lists the mechanisms in force: "process group" (ends the processes in an extension's group), "cookie
	// sweep" (ends processes that left the group but kept their ancestors or their environment), "guardian" (a
	// process that does both if the host is killed).
	Holds []string `json:"holds"`
	// Lacks lists the other mechanisms, each with a reason after a colon.
	Lacks []string `json:"lacks,omitempty"`
}

// String joins the mechanisms in force: "process group + cookie sweep + guardian".
func (c Containment) String() string {
	if len(c.Holds) == 0 {
		return "none"
	}
	return strings.Join(c.Holds, " + ")
}

// Sandbox describes the confinement of an extension's processes.
type Sandbox struct {
	// what the kernel enforces: "files", "system calls", "network", "signals", "attributes"
	Holds []string `json:"holds"`
	// what the kernel does not enforce, each with a reason after a colon; the extension starts nevertheless if
	// BestEffort is set
	Lacks []string `json:"lacks,omitempty"`
	Read  []string `json:"read"`            // absolute paths, besides the system's programs and libraries
	Write []string `json:"write,omitempty"` // absolute paths
	Net   string   `json:"net"`             // none, loopback, or host:port pairs separated by blanks

	BestEffort bool `json:"best_effort,omitempty"` // it runs with weaker confinement than requested

	// what the extension last reported that its sandbox may have refused; "" for nothing
	MayRefuse string `json:"may_refuse,omitempty"`
}

// String describes what is enforced and what is not; "" for nil.
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
	if s.MayRefuse != "" {
		text += "; it may have refused this (exthost check --sandbox): " + s.MayRefuse
	}
	return text
}

// Extension is the state of one extension.
type Extension struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	Version     string `json:"version"`
	Description string `json:"description,omitempty"`
	Path        string `json:"path"` // of its manifest
	Transport   string `json:"transport"`
	Breaker     string `json:"breaker,omitempty"`  // name of the circuit breakers of its instances: ext:TRANSPORT:ID
	Protocol    string `json:"protocol,omitempty"` // with the MCP revision once known
	// a supervisor state, [StateSkipped], [StateUntrusted], [StateDisabled] or [StateNotReady]
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"` // why it is in this state; "" if ready
	Next   string `json:"next,omitempty"`   // what to do, if Reason ends with it
	// cluster nodes that share it and may get calls
	Nodes []string `json:"nodes,omitempty"`
	// why someone must sign in to its server, and how; "" if no login is missing
	Login string `json:"login,omitempty"`
	// restarts of crashed instances, in all builds since the host was opened
	Restarts int `json:"restarts"`
	// of Restarts, those of a crash loop: since the operator restarted it or a reload replaced it, or since five
	// minutes without a restart; 0 if a call succeeded after the latest
	RestartsInRow int    `json:"restarts_in_row,omitempty"`
	Activation    string `json:"activation,omitempty"` // eager or lazy; "" if the extension does not run
	// additional containment of its processes: "pid namespace"
	Containment string `json:"containment,omitempty"`
	// its processes may gain privileges, and keep the host's capabilities
	NewPrivileges bool `json:"new_privileges,omitempty"`

	Sandbox *Sandbox `json:"sandbox,omitempty"` // confinement of its processes; nil: none

	Command  []string          `json:"command,omitempty"`   // command line or URL, as stated in the manifest, with secrets masked
	StateDir string            `json:"state_dir,omitempty"` // private to the extension, survives restarts
	Requires manifest.Requires `json:"requires,omitzero"`

	Tools    []string `json:"tools"`              // registered names
	Withheld []string `json:"withheld,omitempty"` // tools that changed since they were pinned
	Skills   []Skill  `json:"skills,omitempty"`   // in its folder, without those that are invalid
	// own names of tools that it offers and [capabilities] of its manifest does not list
	Undeclared []string `json:"undeclared,omitempty"`
	Hooks      []string `json:"hooks,omitempty"`
	HooksSee   string   `json:"hooks_see,omitempty"` // which calls its hooks see: own, all or none; "" without hooks

	Config map[string]any `json:"config,omitempty"` // from the manifest in use, without the operator's values

	Requests int64 `json:"requests"` // requests of callers to this extension, whatever their outcome
	// of Requests: denied by a policy or hook, or no policy could decide
	Denied     int64 `json:"denied"`
	Invalid    int64 `json:"invalid_arguments"` // of Requests: arguments that do not match the tool's schema
	ToolErrors int64 `json:"tool_errors"`       // of Requests: the tool ran and reported a failure
	// of Requests: reached an instance; counted once even if several instances were tried
	Calls  int64 `json:"calls"`
	Errors int64 `json:"errors"` // of Calls: failed for any other reason
	// of Requests: failed without reaching an instance: not ready, overloaded, failed …
	Refused int64 `json:"refused"`

	Latency *Latency `json:"latency,omitempty"` // of Calls; nil before the first
	// calls of tools that instances have had for more than 10 s, unless their callers are asked something; the oldest
	// first, at most 8
	Slow []OpenCall `json:"slow_calls,omitempty"`

	FailedInRow int64    `json:"failed_in_row"`           // Errors since the last answered call
	LastFailure *Failure `json:"last_failure,omitempty"`  // of a call that reached an instance
	DeniedInRow int64    `json:"denied_in_row,omitempty"` // Denied since the last call that was not
	LastDenial  *Denial  `json:"last_denial,omitempty"`
	LastCrash   *Crash   `json:"last_crash,omitempty"` // kept after a restart

	// names of the stored secrets that it is given at each start of a process and each connection
	Secrets []string `json:"secrets,omitempty"`
	// variables that are not passed on
	EnvWithheld []string `json:"env_withheld,omitempty"`
	// secret-like variables that the manifest declares and that are passed on
	EnvPassedSecrets []string   `json:"env_passed_secrets,omitempty"`
	Instances        []Instance `json:"instances,omitempty"`
}

// The states of an extension that was found but does not run.
const (
	StateSkipped = "skipped" // a requirement is missing or unusable
	// the user has not agreed to run it in its current form, or to give it the requested secrets
	StateUntrusted = "untrusted"
	StateDisabled  = "disabled"  // excluded by disabled or allowlist of the configuration
	StateNotReady  = "not_ready" // its files cannot be read: permissions, or the host lacks descriptors
)

// LeftOut reports whether the extension does not run although the configuration allows it: it is skipped or
// untrusted, and a diagnostic says why.
func (x *Extension) LeftOut() bool { return x.State == StateSkipped || x.State == StateUntrusted }

// Instance is one instance of an extension, running or not.
type Instance struct {
	Key       string             `json:"key,omitempty"` // the session that owns it, or its number
	State     string             `json:"state"`
	Since     time.Time          `json:"since,omitzero"`
	Reason    string             `json:"reason,omitempty"`   // of the latest failure
	Evidence  *protocol.Evidence `json:"evidence,omitempty"` // of the latest failure
	Restarts  int                `json:"restarts"`
	NextRetry *time.Time         `json:"next_retry,omitempty"`
	Breaker   string             `json:"breaker,omitempty"`
	NextProbe *time.Time         `json:"next_probe,omitempty"` // of an open breaker: when a call may try again
	// why the host suspects that the instance hangs, and pings it
	Doubt    string `json:"doubt,omitempty"`
	InFlight int    `json:"in_flight"`
	Queued   int    `json:"queued"`

	PID       int       `json:"pid,omitempty"` // 0 if no process is alive
	StartedAt time.Time `json:"started_at,omitzero"`
	// memory of the process and its descendants; 0 except in the result of exthost.Admin.Status
	RSS int64 `json:"rss_bytes,omitempty"`
}

// OpenCall is a call that has not ended.
type OpenCall struct {
	Tool   string    `json:"tool"`             // registered name
	Caller string    `json:"caller,omitempty"` // authenticated by the server; "" if anonymous
	Since  time.Time `json:"since"`            // when an instance got it
}

// Failure is a failed call that reached an instance.
type Failure struct {
	Time   time.Time     `json:"time"`
	Tool   string        `json:"tool,omitempty"` // registered name; "" for other requests
	Kind   protocol.Kind `json:"kind"`
	Reason string        `json:"reason"`         // as the caller got it, secrets masked, one line of at most 240 bytes
	Next   string        `json:"next,omitempty"` // what the operator can do; "" if the host knows nothing
}

// Denial is a call that governance refused.
type Denial struct {
	Time     time.Time `json:"time"`
	Tool     string    `json:"tool,omitempty"`        // registered name; "" for other requests
	Policy   string    `json:"policy,omitempty"`      // the policy or hook that refused it
	Next     string    `json:"next,omitempty"`        // what the operator can do; "" if the host knows nothing
	Decision string    `json:"decision_id,omitempty"` // for exthost calls
	Reason   string    `json:"reason"`                // as the caller got it, secrets masked, at most 240 bytes
}

// Denials counts the calls of a caller that governance refused for the same reason.
type Denials struct {
	Caller   string    `json:"caller,omitempty"` // "" if anonymous
	Policy   string    `json:"policy,omitempty"` // policy or hook; "" for a tool that is withheld or untrusted
	Code     string    `json:"code"`             // of the decision, or the kind of the error
	Count    int       `json:"count"`
	Last     time.Time `json:"last"`                  // of the latest
	Tool     string    `json:"tool"`                  // of the latest: registered name, or the method
	Decision string    `json:"decision_id,omitempty"` // of the latest; "" if no policy decided
}

// Crash is the unexpected end of an instance.
type Crash struct {
	Time      time.Time          `json:"time"`
	Key       string             `json:"key,omitempty"`       // of the instance
	PID       int                `json:"pid,omitempty"`       // 0 if the instance never became ready
	StartedAt time.Time          `json:"started_at,omitzero"` // zero if there was no process
	Kind      protocol.Kind      `json:"kind"`
	Reason    string             `json:"reason"`
	Next      string             `json:"next,omitempty"` // what to do, if Reason ends with it
	Evidence  *protocol.Evidence `json:"evidence,omitempty"`
}

// Destination is the state of one destination.
type Destination struct {
	Extension
	Listens    string     `json:"listens,omitempty"`     // its own address, besides /{id} of the server
	StandbyPID int        `json:"standby_pid,omitempty"` // process that waits for the next connection
	Refuses    string     `json:"refuses,omitempty"`     // why new connections are refused; "" if they are not
	RetryAt    *time.Time `json:"retry_at,omitempty"`    // when the next connection may try
}

// PolicyPrefix begins the id of a policy's process, policy:NAME. Extension ids cannot begin with it.
const PolicyPrefix = "policy:"

// Policy is the state of one policy.
type Policy struct {
	Name     string              `json:"name"`
	Category governance.Category `json:"category"`
	Kind     governance.Kind     `json:"kind"`
	Builtin  string              `json:"builtin,omitempty"` // name, for kind builtin
	Mode     governance.Mode     `json:"mode"`
	Required bool                `json:"required"`
	Flows    []governance.Flow   `json:"flows"`
	// its match leaves out some exchanges
	Selective bool `json:"selective,omitempty"`
	Priority  int  `json:"priority,omitempty"`
	// a supervisor state; ready for a policy without a process; disabled
	State   string        `json:"state"`
	Reason  string        `json:"reason,omitempty"`  // why it is in this state; "" if ready
	Calls   []PolicyCalls `json:"calls"`             // by flow; empty before the first decision
	Process *Extension    `json:"process,omitempty"` // nil for kinds without a process

	// about this policy, such as patterns that match nothing
	Diagnostics []protocol.Diagnostic `json:"diagnostics,omitempty"`
}

// PolicyCalls counts a policy's decisions about one flow since the host was opened, or since the policy last
// started anew. Its keys suit metrics: policy names and codes are few.
type PolicyCalls struct {
	Flow     governance.Flow `json:"flow"`
	Continue int64           `json:"continue"`
	Rejected int64           `json:"rejected"`
	Errors   int64           `json:"plugin_error"` // the policy could not decide
	Dropped  int64           `json:"dropped"`      // exchanges that an overloaded observer missed
	// of Continue: exchanges that the policy would reject if it were not in shadow mode
	Shadow int64 `json:"shadow"`
	// of Rejected and Shadow, by code; see [governance.BoundedCode]
	Codes   map[string]int64 `json:"codes,omitempty"`
	Latency *Latency         `json:"latency,omitempty"` // nil before the first
}

// Audit is the state of the audit log.
type Audit struct {
	Path   string `json:"path"`
	Reason string `json:"reason,omitempty"` // why the log cannot be written; no request passes then
}

// Pin is a pinned tool and the policy that pinned it.
type Pin struct {
	Policy string `json:"policy"`
	pins.Pin
}

// Selection names the items of an extension that an operator accepts.
type Selection struct {
	Extension string
	Label     string   // of one item, as its pin states it; "": every waiting item
	Digests   []string // of the items as shown to the operator: nothing else is accepted
}

// Names reports whether the pin waits and is selected by extension and label.
func (s *Selection) Names(p *Pin) bool {
	return p.Digest != "" && p.Extension == s.Extension && (s.Label == "" || s.Label == p.Label)
}

// Has reports whether the pin is selected and unchanged since the operator was shown it.
func (s *Selection) Has(p *Pin) bool { return s.Names(p) && slices.Contains(s.Digests, p.Digest) }

// Hook is a hook handler.
type Hook struct {
	Event    string            `json:"event"`
	Name     string            `json:"name"`
	Source   string            `json:"source"` // config, extension ID, or code
	Priority int               `json:"priority"`
	Matcher  string            `json:"matcher"`
	Own      bool              `json:"own,omitempty"` // only for its extension's own tools
	Timeout  protocol.Duration `json:"timeout_ms"`
	OnError  string            `json:"on_error"`          // allow or deny
	Command  []string          `json:"command,omitempty"` // as stated, with secrets masked
}

// Tracing counts the spans sent to a trace collector.
type Tracing struct {
	Endpoint string `json:"endpoint"`          // of the collector
	Sent     int64  `json:"sent"`              // spans accepted by the collector
	Dropped  int64  `json:"dropped"`           // spans dropped because too many were waiting
	Failed   int64  `json:"failed"`            // spans that could not be sent
	Problem  string `json:"problem,omitempty"` // why the last attempt failed; "" if it succeeded
	Next     string `json:"next,omitempty"`    // what to do about the problem
}

// Recording is a running recording of the messages between the host and its extensions.
type Recording struct {
	// configured file; "" for a recording that a client reads, such as exthost calls record
	File       string    `json:"file,omitempty"`
	Extensions []string  `json:"extensions,omitempty"` // recorded extensions; none: all
	Since      time.Time `json:"since"`
	Records    int64     `json:"records"`       // lines written
	Waiting    int64     `json:"waiting_bytes"` // bytes still to be masked and written
	// of Records: too long or not JSON, so that only their length was recorded
	Omitted int64 `json:"omitted,omitempty"`
}
